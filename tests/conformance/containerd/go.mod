// What is required stands in the module file of a version, which ../run makes: -modfile needs a module here.
module nodeclaimd.io/nodeclaimd/tests/conformance/containerd

go 1.23.0
