package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // the format json
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// A kubelet does with its files and flags what NewKubeletCommand of cmd/kubelet/app does with them up to its start, by the same
// exported functions; what is between them there is not exported and is written out here in the same order.
type kubelet struct {
	codecs *serializer.CodecFactory
	parsed map[string]error // of command lines: most are the same
}

func newKubelet() (*kubelet, error) {
	klog.LogToStderr(false) // each gate that is set is a line
	klog.SetOutput(io.Discard)
	if err := logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate); err != nil { // as cmd/kubelet/app does
		return nil, err
	}
	_, codecs, err := scheme.NewSchemeAndCodecs()
	return &kubelet{codecs: codecs, parsed: map[string]error{}}, err
}

// flagSet is where flags of one command line go. ContinueOnError, because kubelet's own set would end this process.
func flagSet(flags *options.KubeletFlags, c *config.KubeletConfiguration) *pflag.FlagSet {
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.AddFlags(fs)
	options.AddKubeletConfigFlags(fs, c)
	global := pflag.NewFlagSet("", pflag.ContinueOnError)
	global.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options.AddGlobalFlags(global)
	global.VisitAll(func(f *pflag.Flag) { // of the process, not of this kubelet
		if fs.Lookup(f.Name) == nil {
			fs.VarP(cliflag.NoOp{}, f.Name, f.Shorthand, f.Usage)
		}
	})
	return fs
}

func parseFlags(args []string) error {
	flags := options.NewKubeletFlags()
	c, err := options.NewKubeletConfiguration()
	if err != nil {
		return err
	}
	fs := flagSet(flags, c)
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("failed to parse kubelet flag: %w", err)
	}
	if rest := fs.Args(); len(rest) > 0 {
		return fmt.Errorf("unknown command: %s", rest[0])
	}
	if err := utilfeature.DefaultFeatureGate.DeepCopy().SetFromMap(c.FeatureGates); err != nil {
		return fmt.Errorf("failed to set feature gates from initial flags-based config: %w", err)
	}
	return options.ValidateKubeletFlags(flags)
}

// load is loadConfigFile.
func (k *kubelet) load(file []byte) (*config.KubeletConfiguration, error) {
	object, _, err := k.codecs.UniversalDecoder().Decode(file, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to load kubelet config file: %w", err)
	}
	c, ok := object.(*config.KubeletConfiguration)
	if !ok {
		return nil, errors.New("failed to cast object to KubeletConfiguration")
	}
	for _, path := range config.KubeletConfigurationPathRefs(c) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join("/etc/kubernetes/kubelet", *path)
		}
	}
	return c, nil
}

// merge is mergeKubeletConfigurations.
func (k *kubelet) merge(c *config.KubeletConfiguration, dropin []byte) error {
	var is metav1.TypeMeta
	if err := json.Unmarshal(dropin, &is); err != nil {
		return err
	}
	if is.GroupVersionKind() != kubeletv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration") {
		return fmt.Errorf("failed to load kubelet dropin file, unknown apiVersion/kind: %v", is.GroupVersionKind())
	}
	versioned := &kubeletv1beta1.KubeletConfiguration{}
	if err := v1beta1.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(c, versioned, nil); err != nil {
		return err
	}
	base, err := json.Marshal(versioned)
	if err != nil {
		return err
	}
	merged, err := jsonpatch.MergePatch(base, dropin)
	if err != nil {
		return fmt.Errorf("failed to merge drop-in and current config: %w", err)
	}
	versioned = &kubeletv1beta1.KubeletConfiguration{}
	if err := json.Unmarshal(merged, versioned); err != nil {
		return fmt.Errorf("failed to unmarshal merged JSON into kubelet configuration: %w", err)
	}
	v1beta1.SetDefaults_KubeletConfiguration(versioned)
	return v1beta1.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(versioned, c, nil)
}

// applyFlags is kubeletConfigFlagPrecedence.
func applyFlags(c *config.KubeletConfiguration, args []string) error {
	gates := c.FeatureGates
	if err := flagSet(options.NewKubeletFlags(), c).Parse(args); err != nil {
		return err
	}
	for name, on := range gates {
		if _, ok := c.FeatureGates[name]; !ok {
			c.FeatureGates[name] = on
		}
	}
	return nil
}

// judge is kubelet's verdict on its files (dropin may be empty) and flags. A panic of its code is a refusal like another.
func (k *kubelet) judge(base, dropin []byte, args []string) (c *config.KubeletConfiguration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	line := strings.Join(args, "\n")
	if _, ok := k.parsed[line]; !ok {
		k.parsed[line] = parseFlags(args)
	}
	if err := k.parsed[line]; err != nil {
		return nil, err
	}
	if c, err = k.load(base); err != nil {
		return nil, err
	}
	if len(dropin) > 0 {
		if err := k.merge(c, dropin); err != nil {
			return nil, err
		}
	}
	if err := applyFlags(c, args); err != nil {
		return nil, err
	}
	if err := validation.ValidateKubeletConfiguration(c, utilfeature.DefaultFeatureGate); err != nil {
		return nil, err
	}
	return c, start(c)
}
