// Command controlplane is a multi-call binary with a control plane in it, for tests and measurements without
// containers: etcd, kube-apiserver, kube-controller-manager and kubectl. Each is the upstream command, unchanged, chosen
// by the name that it is called by or by the first argument.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// The functions are called late: some register flags and metrics that would get in the way of the others.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
	"kube-controller-manager": func() *cobra.Command { return kcm.NewControllerManagerCommand() },
	"kubectl":                 func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() },
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := commands[name]; !ok && name != "etcd" {
		if len(os.Args) < 2 {
			usage()
		}
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	switch command := commands[name]; {
	case name == "etcd":
		etcdmain.Main(os.Args)
	case name == "manifests":
		exitOn(manifests(os.Args[1:]))
	case name == "kubectl": // prints its errors in its own way
		exitOn(cli.RunNoErrOutput(command()))
	case command != nil:
		os.Exit(cli.Run(command()))
	default:
		usage()
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kubectl|manifests [flags]")
	os.Exit(2)
}
