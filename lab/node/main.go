// Command node is a multi-call binary with everything of Kubernetes that runs on a node of a cluster: the kubelet, kubeadm,
// kubectl, and what kubeadm starts as Pods. Each is the upstream command, unchanged, chosen by the name that it is called
// by.
package main

import (
	"context"
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
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The functions are called late: some register flags and metrics that would get in the way of the others.
var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
	"kube-controller-manager": func() *cobra.Command { return kcm.NewControllerManagerCommand() },
	"kube-proxy":              func() *cobra.Command { return proxy.NewProxyCommand() },
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	switch command := commands[name]; {
	case command != nil:
		os.Exit(cli.Run(command()))
	case name == "etcd":
		etcdmain.Main(os.Args)
	case name == "kubeadm":
		exitOn(kubeadm.Run())
	case name == "kubectl": // prints its errors in its own way
		exitOn(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	default:
		exitOn(fmt.Errorf("%s is no command of this binary", name))
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
