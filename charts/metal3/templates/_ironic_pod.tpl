{{/* The StatefulSet of an Ironic that the chart deploys: at most one pod at a time, since two would drive the same servers. */}}
{{- define "metal3.ironicSet" -}}
{{- $deploy := .Values.ironic.deploy -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: ironic
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "metal3.ironicLabels" . | nindent 4 }}
spec:
  replicas: 1
  serviceName: ironic
  # A pod that never gets ready is replaced, too.
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      app.kubernetes.io/name: ironic
  template:
    metadata:
      labels:
        {{- include "metal3.ironicLabels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: ironic
        checksum/config: {{ print (include "metal3.ironicConf" .) $deploy.extraConfig (include "metal3.ironicWeb" .) | sha256sum }}
    spec:
      {{- include "metal3.ironicPod" . | nindent 6 }}
{{- end -}}

{{- define "metal3.ironicPod" -}}
{{- $deploy := .Values.ironic.deploy -}}
{{- $image := .Values.image -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- if $deploy.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with $image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with $deploy.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $deploy.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $deploy.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
tolerations:
- effect: NoSchedule
  key: node-role.kubernetes.io/control-plane
- effect: NoSchedule
  key: node-role.kubernetes.io/master
{{- with $deploy.tolerations }}
{{ toYaml . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
terminationGracePeriodSeconds: 60
initContainers:
- name: prepare
  {{- include "metal3.ironicContainer" . | nindent 2 }}
  command:
  - ironic-prepare
  volumeMounts:
  - {name: data, mountPath: /data}
  - {name: config, mountPath: /etc/ironic, readOnly: true}
  - {name: auth, mountPath: /auth, readOnly: true}
  - {name: certs, mountPath: /certs, readOnly: true}
  {{- if $deploy.tls.authorities }}
  - {name: authorities, mountPath: /authorities, readOnly: true}
  {{- end }}
  - {name: run, mountPath: /run/ironic}
  - {name: tmp, mountPath: /tmp}
containers:
- name: ironic
  {{- include "metal3.ironicContainer" . | nindent 2 }}
  command:
  - ironic
  - --config-dir
  - /etc/ironic
  env:
  - name: HOST_IP
    valueFrom:
      fieldRef:
        fieldPath: status.hostIP
  # Of BMCs and servers of images.
  - name: REQUESTS_CA_BUNDLE
    value: /run/ironic/ca.crt
  - name: OS_DEPLOY__HTTP_URL
    value: {{ ternary "https" "http" $deploy.tls.images }}://{{ include "metal3.ironicExternal" (dict "root" . "port" "images") }}
  - name: OS_SERVICE_CATALOG__ENDPOINT_OVERRIDE
    value: https://{{ include "metal3.ironicExternal" (dict "root" . "port" "api") }}
  {{- /* A probe from outside would need a port for everybody. */}}
  startupProbe:
    exec:
      command: [ironic-probe]
    periodSeconds: 2
    timeoutSeconds: 5
    failureThreshold: 150
  livenessProbe:
    exec:
      command: [ironic-probe]
    periodSeconds: 30
    timeoutSeconds: 20
    failureThreshold: 5
  resources:
    {{- toYaml $deploy.resources | nindent 4 }}
  volumeMounts:
  - {name: data, mountPath: /data}
  - {name: config, mountPath: /etc/ironic, readOnly: true}
  - {name: certs, mountPath: /certs, readOnly: true}
  - {name: run, mountPath: /run/ironic, readOnly: true}
  - {name: tmp, mountPath: /tmp}
- name: web
  {{- include "metal3.ironicContainer" . | nindent 2 }}
  command:
  - ironic-web
  ports:
  - name: api
    containerPort: {{ $deploy.ports.api }}
    protocol: TCP
  - name: images
    containerPort: {{ $deploy.ports.images }}
    protocol: TCP
  readinessProbe:
    httpGet:
      path: /
      port: api
      scheme: HTTPS
    periodSeconds: 5
    timeoutSeconds: 10
    failureThreshold: 6
  livenessProbe:
    httpGet:
      path: /healthz
      port: images
      scheme: {{ ternary "HTTPS" "HTTP" $deploy.tls.images }}
    periodSeconds: 30
    timeoutSeconds: 10
    failureThreshold: 5
  resources:
    requests:
      cpu: 20m
      memory: 32Mi
  volumeMounts:
  - {name: data, mountPath: /data, readOnly: true}
  - {name: data, mountPath: /logs, subPath: log}
  - {name: config, mountPath: /etc/ironic, readOnly: true}
  - {name: certs, mountPath: /certs, readOnly: true}
  - {name: web-tmp, mountPath: /tmp}
volumes:
- name: data
  persistentVolumeClaim:
    claimName: {{ include "metal3.ironicClaim" . }}
- name: config
  configMap:
    name: ironic-config
- name: auth
  secret:
    secretName: {{ include "metal3.ironicCredentialsSecret" . }}
    items:
    - {key: username, path: username}
    - {key: password, path: password}
- name: certs
  secret:
    secretName: {{ include "metal3.ironicTlsSecret" . }}
    items:
    - {key: tls.crt, path: tls.crt}
    - {key: tls.key, path: tls.key}
    - {key: ca.crt, path: ca.crt}
{{- with $deploy.tls.authorities }}
- name: authorities
  configMap:
    name: {{ . }}
{{- end }}
- name: run
  emptyDir:
    medium: Memory
- name: tmp
  emptyDir: {}
- name: web-tmp
  emptyDir: {}
{{- end -}}

{{/* What its containers have in common. */}}
{{- define "metal3.ironicContainer" -}}
{{- $image := .Values.image -}}
{{- $own := .Values.ironic.deploy.image -}}
{{- if not $own -}}
{{- $registry := required "image.registry is required: the registry and path before the names of the images" $image.registry -}}
{{- $own = printf "%s/ironic:%s" $registry ($image.tag | default (printf "v%s" .Chart.AppVersion)) -}}
{{- end -}}
image: {{ $own }}
imagePullPolicy: {{ $image.pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  privileged: false
  readOnlyRootFilesystem: true
{{- end -}}
