//go:build containerd17

package judge

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml"

	"github.com/containerd/containerd/api/types/runc/options"
	_ "github.com/containerd/containerd/cmd/containerd/builtins"
	criconfig "github.com/containerd/containerd/pkg/cri/config"
	"github.com/containerd/containerd/plugin"
	"github.com/containerd/containerd/services/server"
	"github.com/containerd/containerd/services/server/config"
)

const newest = 2

// Its registry has no reset: the parts of `containerd config dump` are called instead of it, with registrations of our own.
var registrations, _ = server.LoadPlugins(context.Background(), &config.Config{Version: newest})

func marshal(of any) ([]byte, error) {
	tree, err := toml.TreeFromMap(of.(map[string]any))
	if err != nil {
		return nil, err
	}
	return []byte(tree.String()), nil
}

func parse(text []byte, into *map[string]any) error {
	tree, err := toml.LoadBytes(text)
	if err == nil {
		*into = tree.ToMap()
	}
	return err
}

func reset() map[string]any {
	configs := map[string]any{}
	for _, r := range registrations {
		configs[r.URI()] = copied(r.Config)
	}
	return configs
}

// undecoded are the keys that this containerd has no field for, and says nothing of.
func undecoded(text string, of any) []string {
	err := toml.NewDecoder(strings.NewReader(text)).Strict(true).Decode(of)
	if err == nil || !strings.Contains(err.Error(), "undecoded keys") {
		return nil
	}
	_, list, _ := strings.Cut(err.Error(), "[")
	keys := strings.Fields(strings.NewReplacer("]", "", `"`, "").Replace(list))
	for i, key := range keys {
		keys[i] = strings.ReplaceAll(key, ".", " ") // as 2.x says them
	}
	return keys
}

func dump(file string, configs map[string]any, v *verdict) error {
	c := &config.Config{Version: 1}
	if err := config.LoadConfig(file, c); err != nil {
		return err
	}
	tree, err := toml.LoadFile(file)
	if err != nil {
		return err
	}
	for _, name := range []string{"plugins", "proxy_plugins"} { // what is in them is not of this type
		if tree.Has(name) {
			tree.Delete(name)
		}
	}
	v.ignored = undecoded(tree.String(), &config.Config{})
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(c); err != nil {
		return err
	}
	for _, r := range registrations {
		uri := r.URI()
		if configs[uri] == nil {
			continue
		}
		if plugins, ok := c.Plugins[uri]; ok {
			for _, key := range undecoded(plugins.String(), copied(configs[uri])) {
				v.ignored = append(v.ignored, uri+" "+key)
			}
		}
		filled, err := c.Decode(&plugin.Registration{Type: r.Type, ID: r.ID, Config: configs[uri]})
		if err != nil {
			return err
		}
		if err := toml.NewEncoder(&text).Encode(filled); err != nil {
			return err
		}
	}
	v.dump = strings.ReplaceAll(text.String(), `"`, "'")
	return nil
}

// validate is what the CRI plugin does with its configuration before anything else.
func validate(ctx context.Context, configs map[string]any) error {
	c := configs[cri].(*criconfig.PluginConfig)
	if _, err := criconfig.ValidatePluginConfig(ctx, c); err != nil {
		return fmt.Errorf("invalid plugin config: %w", err)
	}
	for _, r := range c.Runtimes { // for each pod
		tree, err := toml.TreeFromMap(r.Options)
		if err == nil && r.Type == plugin.RuntimeRuncV2 {
			err = tree.Unmarshal(&options.Options{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The transfer service does not pull for the CRI plugin.
func transfers(context.Context, map[string]any) (bool, string) { return false, "" }

func serverConfig() any { return &config.Config{} }
