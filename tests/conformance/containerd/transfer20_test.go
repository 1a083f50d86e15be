//go:build containerd20

package judge

import (
	"context"

	criconfig "github.com/containerd/containerd/v2/internal/cri/config"
)

// The transfer service pulls for the CRI plugin from 2.1 on.
func transferService(context.Context, *criconfig.ImageConfig) (bool, string) { return false, "" }
