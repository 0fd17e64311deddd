{{/* Each program: key of its values, name of its image, its namespace where nobody chooses another. */}}
{{- define "metal3.programs" -}}
operator: {image: baremetal-operator, namespace: baremetal-operator-system, prefix: baremetal-operator-}
ipam: {image: ip-address-manager, namespace: metal3-ipam-system, prefix: ipam-}
provider: {image: cluster-api-provider-metal3, namespace: capm3-system, prefix: capm3-}
{{- end -}}

{{/* A generated file of a program, with the namespace of the release. */}}
{{- define "metal3.file" -}}
{{- .root.Files.Get (printf "files/%s/%s.yaml" .key .name) | replace .program.namespace .root.Release.Namespace -}}
{{- end -}}

{{/* A webhook configuration or a definition with a conversion, into which cert-manager writes its authority. Without cert-manager
     the program writes its own, and the annotation must be absent. */}}
{{- define "metal3.injected" -}}
{{- if and (eq .root.Values.certificates "cert-manager") (or .object.webhooks (.object.spec | default dict).conversion) -}}
{{- $annotations := .object.metadata.annotations | default dict -}}
{{- $certificate := printf "%s/%sserving-cert" .root.Release.Namespace .program.prefix -}}
{{- $_ := set .object.metadata "annotations" (set $annotations "cert-manager.io/inject-ca-from" $certificate) -}}
{{- end -}}
{{ toYaml .object }}
{{- end -}}

{{/* A namespace that does not exist would leave the release half installed. Without a cluster, such as with `helm template`, nobody
     knows. */}}
{{- define "metal3.namespaceChecks" -}}
{{- if and (not .Values.secrets.allNamespaces) (lookup "v1" "Namespace" "" "default") }}
{{- range without .Values.secrets.namespaces .Release.Namespace }}
{{- if not (lookup "v1" "Namespace" "" .) }}
{{- fail (printf "secrets.namespaces names %s, which does not exist: kubectl create namespace %s" . .) }}
{{- end }}
{{- end }}
{{- with .Values.ironic.resource }}
{{- if and .name .namespace (ne .namespace $.Release.Namespace) (not (lookup "v1" "Namespace" "" .namespace)) }}
{{- fail (printf "ironic.resource.namespace names %s, which does not exist: kubectl create namespace %s" .namespace .namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What a program always has: permissions, webhooks, the Service of its metrics; and what values switch on. */}}
{{- define "metal3.objects" -}}
{{- $values := .root.Values -}}
{{- $names := list "rbac" "metrics" "metrics-reader" -}}
{{- if $values.networkPolicy.enabled }}{{ $names = append $names "network-policy" }}{{ end -}}
{{- if $values.podDisruptionBudget.enabled }}{{ $names = append $names "disruption-budget" }}{{ end -}}
{{- if eq $values.certificates "cert-manager" }}{{ $names = append $names "certificates" }}{{ end -}}
{{- if $values.secrets.allNamespaces }}{{ $names = append $names "secrets-in-all-namespaces" }}{{ end -}}
{{- range $names }}
{{ include "metal3.file" (merge (dict "name" .) $) }}
{{- end }}
{{- range $document := splitList "\n---\n" (include "metal3.file" (merge (dict "name" "webhook") $)) }}
{{- with $document | fromYaml }}
---
{{ include "metal3.injected" (dict "root" $.root "program" $.program "object" .) }}
{{- end }}
{{- end }}
{{- if not $values.secrets.allNamespaces }}
{{- $binding := .root.Files.Get (printf "files/%s/secrets-in-one-namespace.yaml" .key) | fromYaml }}
{{- $namespaces := $values.secrets.namespaces }}
{{- if and (eq .key "operator") $values.ironic.resource.name }}
{{- $namespaces = append $namespaces ($values.ironic.resource.namespace | default .root.Release.Namespace) | uniq }}
{{- end }}
{{- range $namespace := ternary $namespaces list (not (empty $binding)) }}
{{- $copy := include "metal3.file" (merge (dict "name" "secrets-in-one-namespace") $) | fromYaml }}
{{- $_ := set $copy.metadata "namespace" $namespace }}
---
{{ toYaml $copy }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The Deployment of a program, by its values. */}}
{{- define "metal3.deployment" -}}
{{- $root := .root -}}
{{- $values := index $root.Values .key -}}
{{- $image := $root.Values.image -}}
{{- $deployment := include "metal3.file" (merge (dict "name" "deployment") .) | fromYaml -}}
{{- $pod := $deployment.spec.template.spec -}}
{{- $container := index $pod.containers 0 -}}
{{- $registry := required "image.registry is required: the registry and path before the names of the images" $image.registry -}}
{{- $tag := $image.tag | default (printf "v%s" $root.Chart.AppVersion) -}}
{{- $_ := set $container "image" (printf "%s/%s:%s" $registry .program.image $tag) -}}
{{- $_ := set $container "imagePullPolicy" $image.pullPolicy -}}
{{- $_ := set $container "resources" $values.resources -}}
{{- $args := $container.args -}}
{{- if and (eq .key "operator") (not $values.hostClaims) }}{{ $args = without $args "--hostclaims" }}{{ end -}}
{{- with $root.Values.watchNamespaces }}{{ $args = append $args (printf "--namespace=%s" (join "," .)) }}{{ end -}}
{{- $_ := set $container "args" (concat $args $values.args) -}}
{{- range $name, $value := $values.env }}
{{- $_ := set $container "env" (append $container.env (dict "name" $name "value" (ternary $value (toJson $value) (kindIs "string" $value)))) -}}
{{- end -}}
{{- $_ := set $deployment.spec "replicas" (int $values.replicas) -}}
{{- $_ := set $pod "tolerations" (concat $pod.tolerations $values.tolerations) -}}
{{- with $values.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end -}}
{{- with $values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end -}}
{{- with $values.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end -}}
{{- if $image.pullSecrets }}
{{- $secrets := list -}}
{{- range $image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end -}}
{{- $_ := set $pod "imagePullSecrets" $secrets -}}
{{- end -}}
{{- $volumes := list -}}
{{- $own := eq $root.Values.certificates "own" -}}
{{- range $volume := $pod.volumes -}}
{{- $ironic := $root.Values.ironic -}}
{{- if eq $volume.name "ironic-auth" }}{{ with $ironic.credentialsSecret }}{{ $_ := set $volume.secret "secretName" . }}{{ end }}{{ end -}}
{{- if eq $volume.name "ironic-ca" }}
{{- if $ironic.caSecret }}{{ $_ := set $volume.secret "secretName" $ironic.caSecret }}
{{- else if ($ironic.deploy).enabled }}
{{- $_ := set $volume.secret "secretName" (include "metal3.ironicTlsSecret" $root) }}
{{- $_ := set $volume.secret "items" (list (dict "key" "ca.crt" "path" "tls.crt")) }}
{{- end }}
{{- end -}}
{{- if not (and $own (eq $volume.name "cert")) }}{{ $volumes = append $volumes $volume }}{{ end -}}
{{- end -}}
{{- $_ := set $pod "volumes" $volumes -}}
{{- $mounts := list -}}
{{- range $mount := $container.volumeMounts -}}
{{- if not (and $own (eq $mount.name "cert")) }}{{ $mounts = append $mounts $mount }}{{ end -}}
{{- end -}}
{{- $_ := set $container "volumeMounts" $mounts -}}
{{- if eq .key "operator" -}}
{{- $annotations := $deployment.spec.template.metadata.annotations -}}
{{- $_ := set $annotations "checksum/ironic" (include "metal3.ironic" $root | sha256sum) -}}
{{- end -}}
{{ toYaml $deployment }}
{{- end -}}

{{/* The operator's environment: where Ironic is, and what its ramdisks are. */}}
{{- define "metal3.ironic" -}}
{{- $ironic := .Values.ironic -}}
{{- if and $ironic.deployRamdiskUrl (not $ironic.deployKernelUrl) }}
{{- fail "ironic.deployRamdiskUrl needs ironic.deployKernelUrl" }}
{{- end }}
{{- $isBuilt := contains "-build-preprov-image" (join " " .Values.operator.args) }}
{{- if and $ironic.deployKernelUrl (not $ironic.deployRamdiskUrl) (not $isBuilt) }}
{{- fail "ironic.deployKernelUrl needs ironic.deployRamdiskUrl, or --build-preprov-image in operator.args" }}
{{- end }}
{{- if ($ironic.deploy).enabled }}
{{- include "metal3.ironicChecks" . }}
IRONIC_ENDPOINT: {{ printf "https://ironic.%s.svc:%d/v1/" .Release.Namespace (int $ironic.deploy.ports.api) | quote }}
{{- else if $ironic.resource.name }}
{{- if $ironic.endpoint }}{{ fail "ironic.endpoint and ironic.resource.name exclude each other" }}{{ end }}
IRONIC_NAME: {{ $ironic.resource.name | quote }}
IRONIC_NAMESPACE: {{ $ironic.resource.namespace | default .Release.Namespace | quote }}
{{- else }}
IRONIC_ENDPOINT: {{ required "ironic.endpoint is required for the operator, such as https://ironic.example:6385/v1/; or ironic.resource.name; or ironic.deploy.enabled" $ironic.endpoint | quote }}
{{- end }}
{{- if $ironic.insecure }}
IRONIC_INSECURE: "true"
{{- end }}
{{- with $ironic.deployKernelUrl }}
DEPLOY_KERNEL_URL: {{ . | quote }}
{{- end }}
{{- with $ironic.deployRamdiskUrl }}
DEPLOY_RAMDISK_URL: {{ . | quote }}
{{- end }}
{{- with $ironic.deployIsoUrl }}
DEPLOY_ISO_URL: {{ . | quote }}
{{- end }}
{{- end -}}
