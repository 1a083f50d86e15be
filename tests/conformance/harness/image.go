// An image archive that containerd imports: one layer with one program. No registry is asked for anything.

package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
)

// WriteImage writes a docker-archive at path with the program as /pause, named localhost/pause:1.
func WriteImage(path, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := archive(map[string][]byte{"pause": binary}, []string{"pause"})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{"localhost/pause:1"}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	whole, err := archive(map[string][]byte{"config.json": config, "layer.tar": layer, "manifest.json": manifest},
		[]string{"config.json", "layer.tar", "manifest.json"})
	if err != nil {
		return err
	}
	return os.WriteFile(path, whole, 0o644)
}

func archive(files map[string][]byte, order []string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range order {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
