// Package program is what the commands that run parts of kube-controller-manager share: their flags, and their end.
package program

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"
)

// Main runs until it is told to stop, as the user agent of this name.
func Main(name string, run func(context.Context, *rest.Config) error) {
	config := &rest.Config{QPS: 200, Burst: 400, UserAgent: name}
	flag.StringVar(&config.Host, "server", "", "URL of the API server")
	flag.StringVar(&config.CAFile, "ca", "", "file with its authority")
	flag.StringVar(&config.CertFile, "cert", "", "file with the client certificate")
	flag.StringVar(&config.KeyFile, "key", "", "file with its key")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, config); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}
