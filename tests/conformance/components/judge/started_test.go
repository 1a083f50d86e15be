package judge

import (
	"context"
	"fmt"
	"reflect"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/sysctl"
	"k8s.io/utils/cpuset"
)

// call calls a function of kubelet's that has a context or a logger in some releases, and gives its last result, an error.
func call(function any, args ...any) error {
	f := reflect.ValueOf(function)
	var in []reflect.Value
	for i := range f.Type().NumIn() {
		switch f.Type().In(i) {
		case reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(context.Background()))
		case reflect.TypeFor[klog.Logger]():
			in = append(in, reflect.ValueOf(klog.Background()))
		default:
			in = append(in, reflect.ValueOf(args[0]))
			args = args[1:]
		}
	}
	out := f.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return err
}

// start is what a kubelet refuses of its configuration once it is valid, before it asks for a machine: InitializeTLS, run and
// NewMainKubelet of cmd/kubelet/app and pkg/kubelet by their exported parts.
func start(c *config.KubeletConfiguration) error {
	whole := utilfeature.DefaultFeatureGate
	defer func() { utilfeature.DefaultFeatureGate = whole }()
	gates := whole.DeepCopy()
	if err := gates.SetFromMap(c.FeatureGates); err != nil {
		return err
	}
	utilfeature.DefaultFeatureGate = gates
	if _, err := cliflag.TLSCipherSuites(c.TLSCipherSuites); err != nil {
		return err
	}
	if _, err := cliflag.TLSVersion(c.TLSMinVersion); err != nil {
		return err
	}
	if _, err := cpuset.Parse(c.ReservedSystemCPUs); err != nil {
		return err
	}
	if _, err := eviction.ParseThresholdConfig(c.EnforceNodeAllocatable, c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod,
		c.EvictionMinimumReclaim); err != nil {
		return err
	}
	if _, err := cm.ParseQOSReserved(c.QOSReserved); err != nil {
		return err
	}
	if !gates.Enabled(features.TopologyManagerPolicyOptions) && c.TopologyManagerPolicyOptions != nil {
		return fmt.Errorf("topology manager policy options %v require a feature gate", c.TopologyManagerPolicyOptions)
	}
	if err := call(topologymanager.NewPolicyOptions, c.TopologyManagerPolicyOptions); err != nil {
		return err
	}
	policy := any(cpumanager.NewNonePolicy)
	if c.CPUManagerPolicy == "static" {
		policy = cpumanager.NewStaticPolicyOptions
	}
	if err := call(policy, c.CPUManagerPolicyOptions); err != nil {
		return err
	}
	return call(sysctl.NewAllowlist, append(sysctl.SafeSysctlAllowlist(context.Background()), c.AllowedUnsafeSysctls...))
}
