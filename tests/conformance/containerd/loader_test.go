//go:build !containerd17

package judge

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/sirupsen/logrus"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	"github.com/containerd/containerd/v2/cmd/containerd/command"
	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	criconfig "github.com/containerd/containerd/v2/internal/cri/config"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
)

const newest = version.ConfigVersion

var (
	app     any = command.App()
	marshal     = toml.Marshal
	parse       = toml.Unmarshal
	// As init functions have registered them: a load decodes into their configurations.
	registrations = registry.Graph(func(*plugin.Registration) bool { return false })
)

// reset registers all plugins anew, with the configurations that are given back by URI.
func reset() map[string]any {
	configs := map[string]any{}
	registry.Reset()
	for _, r := range registrations {
		r.Config = copied(r.Config)
		configs[r.URI()] = r.Config
		registry.Register(&r)
	}
	return configs
}

type ignored struct{ keys []string }

func (i *ignored) Levels() []logrus.Level { return logrus.AllLevels }

func (i *ignored) Fire(e *logrus.Entry) error {
	if key, ok := e.Data["key"]; ok && strings.HasPrefix(e.Message, "Ignoring unknown key") {
		i.keys = append(i.keys, fmt.Sprint(e.Data["plugin"], " ", key))
	}
	return nil
}

// run is the program: newer ones take a context, too.
func run(args ...string) error {
	method := reflect.ValueOf(app).MethodByName("Run")
	in := []reflect.Value{reflect.ValueOf(args)}
	if method.Type().NumIn() == 2 {
		in = []reflect.Value{reflect.ValueOf(context.Background()), in[0]}
	}
	err, _ := method.Call(in)[0].Interface().(error)
	return err
}

// dump is `containerd config dump`: what it prints and what it ignores, the configurations of the plugins filled.
func dump(file string, _ map[string]any, v *verdict) error {
	var hook ignored
	logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
	logrus.AddHook(&hook)
	stdout := os.Stdout
	os.Stdout, v.err = os.Create(file + ".dump")
	err := run("containerd", "--config", file, "config", "dump")
	os.Stdout.Close()
	os.Stdout = stdout
	text, _ := os.ReadFile(file + ".dump")
	v.dump, v.ignored = strings.ReplaceAll(string(text), `"`, "'"), hook.keys
	return err
}

// validate is what the CRI plugin's three parts do with their configurations before anything else.
func validate(ctx context.Context, configs map[string]any) error {
	c := configs["io.containerd.cri.v1.runtime"].(*criconfig.RuntimeConfig)
	if _, err := criconfig.ValidateRuntimeConfig(ctx, c); err != nil {
		return fmt.Errorf("invalid plugin config: %w", err)
	}
	for _, r := range c.Runtimes { // for each pod
		if _, err := criconfig.GenerateRuntimeOptions(r); err != nil {
			return err
		}
	}
	if _, err := criconfig.ValidateImageConfig(ctx, configs["io.containerd.cri.v1.images"].(*criconfig.ImageConfig)); err != nil {
		return fmt.Errorf("invalid cri image config: %w", err)
	}
	if _, err := criconfig.ValidateServerConfig(ctx, configs["io.containerd.grpc.v1.cri"].(*criconfig.ServerConfig)); err != nil {
		return fmt.Errorf("invalid cri server config: %w", err)
	}
	return nil
}

// transfers tells how images are pulled: for one folder is config_path then taken.
func transfers(ctx context.Context, configs map[string]any) (bool, string) {
	return transferService(ctx, configs["io.containerd.cri.v1.images"].(*criconfig.ImageConfig))
}

func serverConfig() any { return &config.Config{} }
