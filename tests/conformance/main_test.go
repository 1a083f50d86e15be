// The conformance tests run the program against what it will meet: etcd, kube-apiserver, kubelet and containerd, all
// real, and AWS's own verifier of tokens. `./run` prepares everything and starts them; they do not run alone.

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"nodeclaimd.io/nodeclaimd/tests/conformance/harness"
)

// What ./run hands over.
var (
	binDir      = os.Getenv("CONFORMANCE_K8S")        // folder of kube-apiserver, kubelet and pause
	kubeVersion = os.Getenv("CONFORMANCE_KUBERNETES") // their version, such as v1.34.4
	program     = os.Getenv("CONFORMANCE_PROGRAM")    // nodeclaimd, just built
	controller  = os.Getenv("CONFORMANCE_CONTROLLER") // nodeclaim-controller, too
	python      = os.Getenv("CONFORMANCE_PYTHON")     // an interpreter with botocore
	moto        = os.Getenv("CONFORMANCE_MOTO")       // one with moto
	workDir     = os.Getenv("CONFORMANCE_DIR")        // logs and disks; removed by ./run when all is well
)

var (
	cluster *harness.Cluster
	iam     *harness.IAM
	image   string
)

func TestMain(m *testing.M) {
	status, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		status = 1
	}
	os.Exit(status)
}

func runAll(m *testing.M) (int, error) {
	if binDir == "" || program == "" || workDir == "" {
		return 1, fmt.Errorf("start these tests with tests/conformance/run")
	}
	ctx, cancel := harness.Within(60 * time.Second)
	defer cancel()
	image = filepath.Join(workDir, "pause.tar")
	if err := harness.WriteImage(image, filepath.Join(binDir, "pause")); err != nil {
		return 1, err
	}
	var err error
	if iam, err = harness.NewIAM(); err != nil {
		return 1, err
	}
	defer iam.Stop()
	dir := filepath.Join(workDir, "control-plane")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 1, err
	}
	if cluster, err = harness.NewCluster(ctx, dir, binDir, iam.URL); err != nil {
		return 1, err
	}
	defer cluster.Stop()
	if err := cluster.InstallNodeClaims(ctx); err != nil {
		return 1, err
	}
	// What every cluster with bootstrap tokens grants.
	if err := cluster.Bind(ctx, "system:node-bootstrapper", "system:bootstrappers"); err != nil {
		return 1, err
	}
	signing, stop := context.WithCancel(context.Background())
	defer stop()
	go cluster.SignRequests(signing, signed.add)
	return m.Run(), nil
}
