package main

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// What of a provider's components is of use where the manager runs as a plain process: no Deployment, no Service,
// no cert-manager objects.
var keptKinds = map[string]bool{
	"Namespace": true, "CustomResourceDefinition": true,
	"ServiceAccount": true, "Role": true, "RoleBinding": true, "ClusterRole": true, "ClusterRoleBinding": true,
	"MutatingWebhookConfiguration": true, "ValidatingWebhookConfiguration": true,
}

// manifests renders kustomizations and turns every webhook and conversion from a service reference into a URL with
// our CA, so that the API server calls a manager on this machine. It prints a JSON List, which kubectl takes too.
func manifests(args []string) error {
	flags := flag.NewFlagSet("manifests", flag.ExitOnError)
	url := flags.String("webhook-url", "", "base URL of the manager's webhook server, such as https://127.0.0.1:9443")
	caFile := flags.String("ca-file", "", "PEM file of the CA which signed the webhook server's certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pem, err := os.ReadFile(*caFile)
	if err != nil {
		return fmt.Errorf("--ca-file: %w", err)
	}
	bundle := base64.StdEncoding.EncodeToString(pem)
	items := []any{}
	for _, dir := range flags.Args() {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		for _, resource := range resources.Resources() {
			if !keptKinds[resource.GetKind()] {
				continue
			}
			object, err := resource.Map()
			if err != nil {
				return fmt.Errorf("%s: %s: %w", dir, resource.CurId(), err)
			}
			rewrite(object, strings.TrimSuffix(*url, "/"), bundle)
			items = append(items, object)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}

// rewrite goes through an object for client configurations that name a service. A schema may hold a property of
// that name, so schemas are left out.
func rewrite(node any, url, bundle string) {
	switch node := node.(type) {
	case map[string]any:
		if annotations, ok := node["annotations"].(map[string]any); ok {
			delete(annotations, "cert-manager.io/inject-ca-from") // nobody is there to follow it
		}
		if client, ok := node["clientConfig"].(map[string]any); ok {
			if service, ok := client["service"].(map[string]any); ok {
				path, _ := service["path"].(string)
				delete(client, "service")
				client["url"] = url + path
				client["caBundle"] = bundle
			}
		}
		for key, child := range node {
			if key != "openAPIV3Schema" {
				rewrite(child, url, bundle)
			}
		}
	case []any:
		for _, child := range node {
			rewrite(child, url, bundle)
		}
	}
}
