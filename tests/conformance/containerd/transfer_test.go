//go:build !containerd17 && !containerd20

package judge

import (
	"context"

	criconfig "github.com/containerd/containerd/v2/internal/cri/config"
)

func transferService(ctx context.Context, c *criconfig.ImageConfig) (bool, string) {
	criconfig.CheckLocalImagePullConfigs(ctx, c)
	return !c.UseLocalImagePull, c.Registry.ConfigPath
}
