// Signatures, against botocore: sigv4.py has both the texts and the comparison, this starts it.

package readers

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

func TestSignaturesAgreeWithBotocore(t *testing.T) {
	python, program := os.Getenv("CONFORMANCE_PYTHON"), os.Getenv("CONFORMANCE_READERS")
	if python == "" || program == "" {
		t.Fatal("start this test with tests/conformance/run, or name a Python that has botocore in CONFORMANCE_PYTHON")
	}
	number := func(name string, otherwise uint64) string { return strconv.FormatUint(number(t, name, otherwise), 10) }
	command := exec.Command(python, "-B", "sigv4.py", program, number("CONFORMANCE_CASES", 20000), number("CONFORMANCE_SEED", 1))
	said, err := command.CombinedOutput()
	t.Logf("%s", said)
	if err != nil {
		t.Errorf("sigv4.py: %v", err)
	}
}
