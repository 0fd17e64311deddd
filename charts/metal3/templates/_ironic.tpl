{{/* An Ironic that the chart deploys. Its image and what it needs are in charts/ironic-image. */}}

{{/* The labels that select its pod. */}}
{{- define "metal3.ironicLabels" -}}
app.kubernetes.io/name: ironic
app.kubernetes.io/part-of: metal3
{{- end -}}

{{/* What contradicts itself in its values. */}}
{{- define "metal3.ironicChecks" -}}
{{- $ironic := .Values.ironic -}}
{{- $deploy := $ironic.deploy -}}
{{- if or $ironic.endpoint $ironic.resource.name }}
{{- fail "ironic.deploy.enabled and ironic.endpoint or ironic.resource.name exclude each other: an Ironic is deployed, or is there already" }}
{{- end }}
{{- if $ironic.insecure }}
{{- fail "ironic.insecure is for an Ironic that is there already: the operator knows the certificate of one that is deployed" }}
{{- end }}
{{- $isBuilt := contains "-build-preprov-image" (join " " .Values.operator.args) }}
{{- if not (or $ironic.deployKernelUrl $ironic.deployIsoUrl $isBuilt) }}
{{- fail "ironic.deploy.enabled needs a ramdisk: ironic.deployKernelUrl and ironic.deployRamdiskUrl, or ironic.deployIsoUrl, or --build-preprov-image in operator.args" }}
{{- end }}
{{- if and (not $deploy.hostNetwork) (eq $deploy.service.type "ClusterIP") }}
{{- fail "ironic.deploy.hostNetwork=false needs ironic.deploy.service.type NodePort or LoadBalancer: BMCs and servers must reach Ironic" }}
{{- end }}
{{- if and (not $deploy.hostNetwork) (not $deploy.address) }}
{{- fail "ironic.deploy.hostNetwork=false needs ironic.deploy.address: where BMCs and servers reach Ironic" }}
{{- end }}
{{- if and (eq $deploy.service.type "NodePort") (not (and $deploy.service.nodePorts.api $deploy.service.nodePorts.images)) }}
{{- fail "ironic.deploy.service.type=NodePort needs ironic.deploy.service.nodePorts.api and ironic.deploy.service.nodePorts.images" }}
{{- end }}
{{- if and $deploy.tls.verifiedByRamdisk (not (or $deploy.address $deploy.tls.names $deploy.tls.secret)) }}
{{- fail "ironic.deploy.tls.verifiedByRamdisk needs ironic.deploy.address or ironic.deploy.tls.names: the certificate must name the address that ramdisks call" }}
{{- end }}
{{- if and $ironic.deployIsoUrl (not $deploy.address) }}
{{- fail "ironic.deployIsoUrl needs ironic.deploy.address: Ironic cannot tell a ramdisk in an ISO of yours where it is, so the ISO must know" }}
{{- end }}
{{- if eq (int $deploy.ports.api) (int $deploy.ports.images) }}
{{- fail "ironic.deploy.ports.api and ironic.deploy.ports.images must differ" }}
{{- end }}
{{- end -}}

{{/* Host and port at which BMCs and servers reach one of its ports, api or images. */}}
{{- define "metal3.ironicExternal" -}}
{{- $deploy := .root.Values.ironic.deploy -}}
{{- $port := index $deploy.ports .port -}}
{{- if and (not $deploy.hostNetwork) (eq $deploy.service.type "NodePort") }}{{ $port = index $deploy.service.nodePorts .port }}{{ end -}}
{{- $host := $deploy.address | default "$(HOST_IP)" -}}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end -}}
{{- printf "%s:%d" $host (int $port) -}}
{{- end -}}

{{/* The Secrets with its credentials and its certificate. */}}
{{- define "metal3.ironicCredentialsSecret" -}}
{{- .Values.ironic.credentialsSecret | default "ironic-credentials" -}}
{{- end -}}
{{- define "metal3.ironicTlsSecret" -}}
{{- .Values.ironic.deploy.tls.secret | default "ironic-tls" -}}
{{- end -}}
{{- define "metal3.ironicClaim" -}}
{{- .Values.ironic.deploy.storage.existingClaim | default "ironic" -}}
{{- end -}}

{{/* The names in its certificate: addresses apart from names. */}}
{{- define "metal3.ironicNames" -}}
{{- $service := printf "ironic.%s" .Release.Namespace -}}
{{- $all := list (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service) $service "ironic" -}}
{{- with .Values.ironic.deploy.address }}{{ $all = append $all . }}{{ end -}}
{{- $all = concat $all .Values.ironic.deploy.tls.names | uniq -}}
{{- $ips := list -}}
{{- $dns := list -}}
{{- range $name := $all -}}
{{- if or (contains ":" $name) (regexMatch "^[0-9.]+$" $name) }}{{ $ips = append $ips $name }}{{ else }}{{ $dns = append $dns $name }}{{ end -}}
{{- end -}}
{{- dict "ips" $ips "dns" $dns | toJson -}}
{{- end -}}

{{/* Lines that win over Ironic's own defaults. Values are those of upstream's image where nothing else is said. */}}
{{- define "metal3.ironicConf" -}}
[DEFAULT]
auth_strategy = http_basic
http_basic_auth_user_file = /run/ironic/htpasswd
use_stderr = true
state_path = /data
# On the volume of the images: they are linked there.
tempdir = /data/tmp
rpc_transport = none
# By this name the database knows who may change a node, also after the pod was made anew.
host = ironic
hash_ring_algorithm = sha256
enabled_hardware_types = ipmi,idrac,redfish,manual-management
enabled_bios_interfaces = no-bios,redfish,idrac-redfish
enabled_boot_interfaces = redfish-virtual-media,idrac-redfish-virtual-media,redfish-https,ipxe,pxe,fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = autodetect,direct,ramdisk,custom-agent,bootc,fake
enabled_firmware_interfaces = no-firmware,fake,redfish
enabled_inspect_interfaces = agent,redfish,idrac-redfish,no-inspect,fake
enabled_management_interfaces = redfish,idrac-redfish,ipmitool,noop,fake
enabled_network_interfaces = noop
enabled_power_interfaces = redfish,idrac-redfish,ipmitool,agent,fake
enabled_raid_interfaces = no-raid,redfish,idrac-redfish,agent,fake
enabled_rescue_interfaces = no-rescue,agent
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor,redfish,idrac-redfish,ipmitool,fake
default_deploy_interface = autodetect
autodetect_deploy_interfaces = ramdisk,bootc,direct
default_inspect_interface = agent
default_network_interface = noop
isolinux_bin = /usr/lib/ISOLINUX/isolinux.bin
ldlinux_c32 = /usr/lib/syslinux/modules/bios/ldlinux.c32
# Where the boot loader of the image looks for it.
grub_config_path = EFI/debian/grub.cfg

[api]
# The web server beside it speaks TLS.
host_ip = 127.0.0.1
port = 6388
api_workers = 1

[oslo_middleware]
enable_proxy_headers_parsing = true

[agent]
deploy_logs_local_path = /data/log
max_command_attempts = 30
certificates_path = /data/agents
# Ironic's, the public ones and those of the values: they take the place of those that the ramdisk has.
api_ca_file = /run/ironic/ca.crt

[conductor]
automated_clean = true
# Three times what follows as [pxe]boot_retry_timeout, and more.
deploy_callback_timeout = 4800
verify_step_priority_override = management.clear_job_queue:90
node_history = false
power_state_change_timeout = 120
bootloader = file:///usr/share/ironic/esp.img
file_url_allowed_paths = /usr/share/ironic

[database]
connection = sqlite:////data/db/ironic.sqlite?timeout=30

[deploy]
default_boot_option = local
erase_devices_metadata_priority = 10
erase_devices_priority = 0
http_root = /data/html
iso_master_path = /data/html/master_iso_images
# The database lies on the same volume: by default copies of images may fill all of it.
iso_cache_size = 2048
fast_track = false

[dhcp]
dhcp_provider = none

[inspector]
require_managed_boot = false
power_off = true
extra_kernel_params = ipa-inspection-collectors=default,logs ipa-enable-vlan-interfaces=all ipa-inspection-dhcp-all-interfaces=1 ipa-collect-lldp=1
hooks = $default_hooks,parse-lldp
add_ports = all
keep_ports = present

[ipmi]
use_ipmitool_retries = false
min_command_interval = 5
command_retry_timeout = 60
cipher_suite_versions = 3,17

[nova]
send_power_notifications = false

[oslo_messaging_notifications]
driver = noop

[pxe]
boot_retry_timeout = 1200
images_path = /data/html/tmp
instance_master_path = /data/html/master_images
image_cache_size = 8192
tftp_root = /data/tftpboot
tftp_master_path = /data/tftpboot/master_images
kernel_append_params = {{ include "metal3.ironicKernelParams" . }}

[redfish]
use_swift = false
kernel_append_params = {{ include "metal3.ironicKernelParams" . }}

[sensor_data]
send_sensor_data = false
{{- end -}}

{{- define "metal3.ironicKernelParams" -}}
nofb nomodeset vga=normal systemd.journald.forward_to_console=yes
{{- if not .Values.ironic.deploy.tls.verifiedByRamdisk }} ipa-insecure=1{{ end }}
{{- with .Values.ironic.deploy.kernelParams }} {{ . }}{{ end }}
{{- end -}}

{{/* Its web server: TLS for the API, and what BMCs and servers fetch. `ironic-web` drops the lines for IPv6 on a node without it. */}}
{{- define "metal3.ironicWeb" -}}
{{- $deploy := .Values.ironic.deploy -}}
{{- $tls := ternary " ssl" "" $deploy.tls.images -}}
worker_processes 2;
pid /tmp/nginx.pid;
error_log stderr warn;
events {
  worker_connections 1024;
}
http {
  access_log off;
  server_tokens off;
  sendfile on;
  default_type application/octet-stream;
  client_body_temp_path /tmp/body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;
  ssl_certificate /certs/tls.crt;
  ssl_certificate_key /certs/tls.key;
  ssl_protocols TLSv1.2 TLSv1.3;
  server {
    listen {{ $deploy.ports.api }} ssl;
    listen [::]:{{ $deploy.ports.api }} ssl;
    # An inventory, or a config drive in base64.
    client_max_body_size 64m;
    location / {
      proxy_pass http://127.0.0.1:6388;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto https;
      proxy_set_header X-Forwarded-For $remote_addr;
      # Ironic answers some calls when a BMC has.
      proxy_read_timeout 300s;
    }
  }
  server {
    listen {{ $deploy.ports.images }}{{ $tls }};
    listen [::]:{{ $deploy.ports.images }}{{ $tls }};
    root /data/html;
    location = /healthz {
      return 204;
    }
    # Copies of what was downloaded, which are linked to the rest where they are used.
    location ~ ^/(master_images|master_iso_images|tmp)(/|$) {
      return 404;
    }
  }
}
{{- end -}}
