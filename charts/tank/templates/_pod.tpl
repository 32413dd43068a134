{{/* The fields that the pods of brokers and controllers share: security, placement. Takes (list $ "broker" $.Values.broker). */}}
{{- define "tank.pod" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 }}{{- $its := index . 2 -}}
serviceAccountName: {{ include "tank.account" (list $top $kind) }}
# Only pods that call the API server get a token: controllers, which watch the StatefulSets, and brokers that ask for their zone.
automountServiceAccountToken: {{ or (eq $kind "controller") $top.Values.rackFromNode.enabled }}
# Variables of a Service called "tank" would look like our options.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ int $its.terminationGracePeriodSeconds }}
securityContext:
  runAsNonRoot: true
  {{- with $top.Values.security.runAsUser }}
  runAsUser: {{ int . }}
  runAsGroup: {{ int . }}
  {{- end }}
  {{- with $top.Values.security.fsGroup }}
  fsGroup: {{ int . }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- include "tank.pullSecrets" $top | nindent 0 }}
{{- with $its.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $its.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $its.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $its.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $field := list "dnsPolicy" "schedulerName" "runtimeClassName" }}
{{- with get $its $field }}
{{ $field }}: {{ . }}
{{- end }}
{{- end }}
{{- with $its.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $its.hostAliases }}
hostAliases: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $spread := $top.Values.topologySpread }}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "tank.selector" (list $top $kind) | fromYaml)) }}
{{- $constraints := list }}
{{- range $its.topologySpreadConstraints }}{{- $constraints = append $constraints (ternary . (merge (deepCopy .) $own) (hasKey . "labelSelector")) }}{{- end }}
{{- if not $constraints }}
{{- range $pair := list (list "kubernetes.io/hostname" $spread.hosts) (list "topology.kubernetes.io/zone" $spread.zones) }}
{{- with index $pair 1 }}{{- $constraints = append $constraints (merge (dict "maxSkew" 1 "topologyKey" (index $pair 0) "whenUnsatisfiable" .) $own) }}{{- end }}
{{- end }}
{{- end }}
{{- with $constraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $its.initContainers }}
initContainers: {{- tpl (toYaml .) $top | nindent 2 }}
{{- end }}
{{- end }}

{{/* A pod's labels. Takes the same. */}}
{{- define "tank.podLabels" -}}
{{- $its := index . 2 -}}
{{ include "tank.selector" . }}
{{- with $its.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The fields that both containers share, except their environment. Takes (list $ $.Values.broker startupSeconds portOfHealth). */}}
{{- define "tank.container" -}}
{{- $top := index . 0 }}{{- $its := index . 1 -}}
image: {{ include "tank.image" $top }}
imagePullPolicy: {{ $top.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{- toYaml $its.resources | nindent 2 }}
# The command waits until the process has started: each failed probe would be a warning in the events of a normal start.
startupProbe:
  exec:
    command: [python, -m, tank_cli.started, {{ index . 3 | quote }}]
  periodSeconds: 1
  timeoutSeconds: 100
  failureThreshold: {{ max 1 (ceil (divf (int (index . 2)) 45)) | int }}
# /healthz answers as long as the event loop runs: a slow process is kept, one that has hung for two minutes is restarted.
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: {{ int $its.probes.liveness.periodSeconds }}
  timeoutSeconds: {{ int $its.probes.liveness.timeoutSeconds }}
  failureThreshold: {{ int $its.probes.liveness.failureThreshold }}
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: {{ int $its.probes.readiness.periodSeconds }}
  timeoutSeconds: {{ int $its.probes.readiness.timeoutSeconds }}
  failureThreshold: {{ int $its.probes.readiness.failureThreshold }}
{{- with $its.extraEnvFrom }}
envFrom: {{- tpl (toYaml .) $top | nindent 2 }}
{{- end }}
{{- end }}

{{/* The fields of a StatefulSet that both kinds share. Takes (list $ "broker" $.Values.broker). */}}
{{- define "tank.set" -}}
{{- $its := index . 2 -}}
# Always set: without these fields, a change that was patched by hand would silently stay through upgrades.
updateStrategy:
  type: {{ $its.updateStrategy.type }}
  {{- if eq $its.updateStrategy.type "RollingUpdate" }}
  rollingUpdate:
    partition: {{ int $its.updateStrategy.partition }}
  {{- end }}
{{- end }}

{{/* The volumes that the user adds, the cluster's secret, and with storage.emptyDir the data. Takes (list $ $.Values.broker). */}}
{{- define "tank.volumes" -}}
{{- $its := index . 1 -}}
{{- if $its.storage.emptyDir }}
- name: data
  emptyDir: {sizeLimit: {{ $its.storage.size }}}
{{- end }}
{{- with (index . 0).Values.clusterSecret }}
{{- if .enabled }}
- name: cluster-secret
  secret:
    secretName: {{ include "tank.secret" (index $ 0) }}
    items:
      - {key: {{ .key }}, path: secret}
{{- end }}
{{- end }}
{{- with $its.extraVolumes }}
{{ tpl (toYaml .) (index $ 0) }}
{{- end }}
{{- end }}

{{/* The environment variables of both containers. */}}
{{- define "tank.env" -}}
{{- if .Values.clusterSecret.enabled }}
- name: TANK_SECRET_FILE
  value: /etc/tank-secret/secret
{{- end }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
# For the command `tank` in `kubectl exec`.
- name: TANK_SERVERS
  value: {{ include "tank.address" . }}
- name: TANK_CONTROLLERS
  valueFrom: {configMapKeyRef: {name: {{ include "tank.members" . }}, key: controllers}}
{{- end }}

{{/*
The volume of each pod. A StatefulSet's volumes can't change in place: this template fails with the commands to run, before the API server refuses the change.
Takes (list $ "broker" $.Values.broker).
*/}}
{{- define "tank.volume" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 }}{{- $its := index . 2 -}}
{{- $name := include (printf "tank.%s" $kind) $top -}}
{{- $live := include "tank.live" (list $top $kind) | fromJson -}}
{{- $kubectl := printf "kubectl -n %s" $top.Release.Namespace -}}
{{- $anew := printf "delete the StatefulSet without its pods, and upgrade again, which creates it again around them:\n  %s delete statefulset %s --cascade=orphan\nGive that upgrade --set %s.replicas=%d as well, and write it into your values: it is the present number, which is lost with the StatefulSet. Pods beyond the values' number would be drained and removed." $kubectl $name $kind (int (dig "spec" "replicas" (int $its.replicas) $live)) -}}
{{- $claims := dig "spec" "volumeClaimTemplates" list $live -}}
{{- if and $live (ne (empty $claims) $its.storage.emptyDir) }}
{{- fail (printf "\n\n%s.storage.emptyDir is %t, and the StatefulSet %s has %s. Kubernetes can't change that in place, and all messages would be lost: install another cluster under another name, copy the messages that you need, and uninstall this one.\n" $kind $its.storage.emptyDir $name (ternary "no volumes" "volumes" (empty $claims))) }}
{{- end }}
{{- range $claim := $claims }}
{{- $size := .spec.resources.requests.storage }}
{{- if ne (include "tank.bytes" $size) (include "tank.bytes" $its.storage.size) }}
{{- fail (printf "\n\n%s.storage.size is %s, the StatefulSet %s has %s. Kubernetes can't change that in place. First let the volumes grow, if their storage class can:\n  %s get pvc -l app.kubernetes.io/instance=%s,app.kubernetes.io/component=%s -o name | xargs -I PVC %s patch PVC --type merge -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"%s\"}}}}'\nthen %s\n" $kind $its.storage.size $name $size $kubectl $top.Release.Name $kind $kubectl $its.storage.size $anew) }}
{{- end }}
{{- $class := .spec.storageClassName | default "" }}
{{- if ne $class $its.storage.className }}
{{- fail (printf "\n\n%s.storage.className is %q, the StatefulSet %s has %q (empty: the cluster's default). Kubernetes can't change that in place, and an existing volume keeps its class. To keep the old class, set %s.storage.className to its name again. For the new one, %s\nThen replace the volumes of one pod after the other; each pod gets a volume of the new class, and copies its data from the other pods (a single pod would lose all its data). Wait before the next one until `tank cluster status` reports no problem:\n  %s delete pvc data-%s-0 --wait=false && %s delete pod %s-0\n" $kind $its.storage.className $name $class $kind $anew $kubectl $name $kubectl $name) }}
{{- end }}
{{- range $field := list "labels" "annotations" }}
{{- $before := dig "metadata" $field dict $claim | default dict }}{{- $now := get $its.storage $field }}
{{- if ne (toJson $before) (toJson $now) }}
{{- fail (printf "\n\n%s.storage.%s is %s, the StatefulSet %s has %s. Kubernetes can't change that in place: %s\nExisting volumes keep theirs: change those with kubectl label or kubectl annotate.\n" $kind $field (toJson $now) $name (toJson $before) $anew) }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $its.storage.emptyDir -}}
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ $top.Values.persistence.whenDeleted }}
  whenScaled: Retain
volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: data
      {{- with $its.storage.labels }}
      labels: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $its.storage.annotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec: {{- include "tank.claim" $its | nindent 6 }}
{{- end }}
{{- end }}

{{/* The spec of a pod's volume claim. Takes $.Values.broker. */}}
{{- define "tank.claim" -}}
accessModes: [ReadWriteOnce]
volumeMode: Filesystem
{{- with .storage.className }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .storage.size }}
{{- end }}

{{/* A quantity of bytes as a number: Kubernetes writes 1024Gi as 1Ti. */}}
{{- define "tank.bytes" -}}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "P" 1000000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- mulf (regexFind "^[0-9.]+" . | float64) (get $factors (regexFind "[A-Za-z]*$" .)) | printf "%.0f" -}}
{{- end }}
