package judge

import (
	"encoding"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
)

// Values of a key, beside those of its type. What is right stands as often as what is wrong.
var values = map[string][]any{
	"default_runtime_name":        {"runc", "nvidia", "kata", ""},
	"config_path":                 {"", "/etc/containerd/certs.d", "/etc/containerd/certs.d:/etc/docker/certs.d", "/a:/b"},
	"image_pull_progress_timeout": {"5m", "0s", "1h30m", "5", "x", ""},
	"drain_exec_sync_io_timeout":  {"5s", "0s", "5", ""},
	"stream_idle_timeout":         {"4h0m0s", "1m", "4", "soon", ""},
	"io_type":                     {"", "fifo", "streaming", "pipe"},
	"bin_dir":                     {"/usr/lib/cni", "/opt/cni/bin"},
	"bin_dirs":                    {[]any{"/opt/cni/bin", "/usr/lib/cni"}, []any{"/x"}},
	"snapshotter":                 {"overlayfs", "native", "soci"},
	"max_concurrent_downloads":    {int64(3), int64(10)},
	"runtime_type":                {"io.containerd.runc.v2", "io.containerd.kata.v2"},
	"disabled_plugins":            {[]any{"io.containerd.snapshotter.v1.zfs"}, []any{overlay}, []any{cri}, []any{overlay, runtime}, []any{images}, []any{"cri"}, []any{"a.b"}, []any{}},
	"required_plugins":            {[]any{overlay}, []any{overlay, "io.containerd.snapshotter.v1.overlay"}, []any{"io.containerd.x"}, []any{"overlayfs"}, []any{}},
	"imports":                     {[]any{}},
	"stream_processors":           {map[string]any{"x": map[string]any{"accepts": []any{"a"}, "returns": "b", "path": "/x"}}},
	"timeouts":                    {map[string]any{"io.containerd.timeout.bolt.open": "1s"}, map[string]any{"io.containerd.timeout.bolt.open": "1"}},
	"type":                        {"snapshot"},
	"sandbox_image":               {"a.example.com/pause:1"},
}

// Settings that one rule reads together, and those that stand below them; one in eight texts is made of one of these.
var related = [][]string{
	{"config_path", "mirrors", "configs", "auths"},
	{"default_runtime_name", "runtimes"},
	{"disabled_plugins", "required_plugins"},
}

// One in twelve of the values whose types we know is one of these, of whatever type its key is.
// (An empty table is nothing to containerd's reader.)
var others = []any{true, int64(1), "x", 1.5, []any{}, []any{"x"}, []any{int64(1)}, map[string]any{"x": "x"}}

// Of the keys of a map.
var names = map[string][]string{
	"runtimes":      {"runc", "nvidia", "kata"},
	"mirrors":       {"docker.io"},
	"configs":       {"registry.example.com"},
	"auths":         {"https://registry.example.com"},
	"options":       {"SystemdCgroup", "BinaryName"},
	"pinned_images": {"sandbox"},
}

// What version 2 has of the images' settings, and where.
var (
	underContainerd = map[string]bool{"snapshotter": true, "disable_snapshot_annotations": true, "discard_unpacked_layers": true}
	beside          = map[string]bool{"registry": true, "image_decryption": true, "max_concurrent_downloads": true,
		"image_pull_progress_timeout": true, "image_pull_with_sync_fs": true}
)

const (
	cri     = "io.containerd.grpc.v1.cri"
	images  = "io.containerd.cri.v1.images"
	runtime = "io.containerd.cri.v1.runtime"
	overlay = "io.containerd.snapshotter.v1.overlayfs"
)

type setting struct {
	path []string
	of   reflect.Type
}

type maker struct {
	r        *rand.Rand
	settings map[int][]setting // by the version of the text
}

func newMaker(seed uint64) *maker {
	m := &maker{r: rand.New(rand.NewPCG(seed, 0)), settings: map[int][]setting{}}
	configs := reset()
	var uris []string
	for uri, config := range configs {
		if config != nil && reflect.TypeOf(config).Elem().Kind() == reflect.Struct {
			uris = append(uris, uri)
		}
	}
	sort.Strings(uris)
	for version := 2; version <= newest; version++ {
		var all []setting
		for _, s := range fields(reflect.TypeOf(serverConfig()).Elem(), nil) {
			switch s.path[0] {
			case "version", "plugins", "proxy_plugins":
			case "grpc", "ttrpc", "metrics", "debug":
				if version < 4 {
					all = append(all, s)
				}
			default:
				all = append(all, s)
			}
		}
		for _, uri := range uris {
			of := reflect.TypeOf(configs[uri]).Elem()
			weight := 1
			if strings.Contains(uri, ".cri") {
				weight = 4
			}
			for range weight {
				if version == 2 && newest > 2 && strings.Contains(uri, ".cri") {
					all = append(all, asVersion2(uri, of)...)
				} else {
					all = append(all, fields(of, []string{"plugins", uri})...)
				}
			}
		}
		m.settings[version] = all
	}
	return m
}

// asVersion2 is where the settings of a part of the CRI plugin stand in version 2, as containerd's migration reads them.
func asVersion2(uri string, of reflect.Type) []setting {
	var all []setting
	for _, s := range fields(of, nil) {
		switch name := s.path[0]; {
		case uri == images && underContainerd[name]:
			s.path = append([]string{"plugins", cri, "containerd"}, s.path...)
		case uri == images && !beside[name], name == "cni" && s.path[1] == "bin_dirs", strings.HasPrefix(name, "stats_"):
			continue
		default:
			s.path = append([]string{"plugins", cri}, s.path...)
		}
		all = append(all, s)
	}
	return all
}

// fields are the settings of a struct, those of its structs among them.
func fields(of reflect.Type, path []string) []setting {
	var all []setting
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("toml"), ",")
		if name == "" || name == "-" {
			if of.Field(i).Anonymous && of.Field(i).Type.Kind() == reflect.Struct {
				all = append(all, fields(of.Field(i).Type, path)...)
			}
			continue
		}
		below := append(append([]string{}, path...), name)
		if of.Field(i).Type.Kind() == reflect.Struct {
			all = append(all, fields(of.Field(i).Type, below)...)
		} else {
			all = append(all, setting{below, of.Field(i).Type})
		}
	}
	return all
}

func (m *maker) one(n int) bool { return m.r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// value makes one of the type; nil: none is known.
func (m *maker) value(of reflect.Type, name string) any {
	if known := values[name]; known != nil {
		return pick(m.r, known)
	}
	if name == "options" && m.one(3) {
		return map[string]any{pick(m.r, []string{"BinaryName", "SystemdCgroup", "IoUid"}): pick(m.r, others)}
	}
	if of.Kind() != reflect.Pointer && reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return pick(m.r, []string{"1s", "0s", "5m"})
	}
	switch of.Kind() {
	case reflect.Pointer:
		return m.value(of.Elem(), name)
	case reflect.Bool:
		return m.one(2)
	case reflect.String:
		return pick(m.r, []string{"", "x", "/x"})
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return int64(pick(m.r, []int{0, 1, 3, 10, 1000}))
	case reflect.Float64:
		return pick(m.r, []float64{0.5, 1.5})
	case reflect.Slice:
		if of.Elem().Kind() != reflect.String {
			return nil
		}
		if name == "endpoint" {
			return pick(m.r, [][]any{{"https://mirror.example.com"}, {"https://mirror.example.com", "http://a:5000/v2"}, {"x"}})
		}
		return []any{"x"}
	case reflect.Map:
		made := map[string]any{}
		known := names[name]
		if known == nil {
			known = []string{"x"}
		}
		key := pick(m.r, known)
		if made[key] = m.value(of.Elem(), key); made[key] == nil {
			return nil
		}
		return made
	case reflect.Interface:
		if name == "SystemdCgroup" {
			return m.one(2)
		}
		return "x"
	case reflect.Struct:
		made := map[string]any{}
		for range 1 + m.r.IntN(2) {
			all := fields(of, nil)
			if len(all) == 0 {
				return nil
			}
			s := pick(m.r, all)
			if value := m.value(s.of, s.path[len(s.path)-1]); value != nil {
				put(made, s.path, value)
			}
		}
		return made
	}
	return nil
}

func put(into map[string]any, path []string, value any) {
	for ; len(path) > 1; path = path[1:] {
		below, ok := into[path[0]].(map[string]any)
		if !ok {
			below = map[string]any{}
			into[path[0]] = below
		}
		into = below
	}
	into[path[0]] = value
}

// text makes one to four settings, now and then of another version than it says.
func (m *maker) text() string {
	version := 2 + m.r.IntN(newest-1)
	made := map[string]any{"version": int64(version)}
	of := version
	if m.one(20) {
		of = 2 + m.r.IntN(newest-1)
	}
	settings := m.settings[of]
	if m.one(8) {
		group := pick(m.r, related)
		settings = slices.DeleteFunc(slices.Clone(settings), func(s setting) bool { return !slices.Contains(group, s.path[len(s.path)-1]) })
	}
	for range 1 + m.r.IntN(4) {
		s := pick(m.r, settings)
		value := m.value(s.of, s.path[len(s.path)-1])
		if value == nil {
			continue
		}
		if m.one(15) { // mistyped, or another version's
			s.path = append([]string{}, s.path...)
			s.path[len(s.path)-1] = pick(m.r, []string{s.path[len(s.path)-1] + "x", "no_such_key", "enable_cdi"})
		}
		if m.one(12) {
			value = pick(m.r, others)
		}
		if s.path[0] == "plugins" && m.one(40) {
			s.path = append([]string{}, s.path...)
			s.path[1] = pick(m.r, []string{s.path[1] + "s", "cri"})
		}
		put(made, s.path, value)
	}
	text, err := marshal(made)
	if err != nil {
		panic(err)
	}
	return string(text)
}
