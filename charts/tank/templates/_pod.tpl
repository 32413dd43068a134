{{/* What both kinds of pods have: security, placement. Takes (list $ "broker" $.Values.broker). */}}
{{- define "tank.pod" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 }}{{- $its := index . 2 -}}
serviceAccountName: {{ include "tank.account" (list $top $kind) }}
# A controller watches its StatefulSets, a broker may ask for its zone: nobody else gets a token.
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

{{/* A pod's metadata. Takes the same; what it annotates beside the user's own is for the caller to write. */}}
{{- define "tank.podLabels" -}}
{{- $its := index . 2 -}}
{{ include "tank.selector" . }}
{{- with $its.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What both containers have but for their environment. Takes (list $ $.Values.broker startupSeconds, port of health). */}}
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
# It waits, and is answered once: each "not yet" would be a warning in the events of a normal start.
startupProbe:
  exec:
    command: [python, -m, tank_cli.started, {{ index . 3 | quote }}]
  periodSeconds: 1
  timeoutSeconds: 100
  failureThreshold: {{ max 1 (ceil (divf (int (index . 2)) 45)) | int }}
# It answers as long as the event loop turns: a slow process is left alone, one that has hung for two minutes is not.
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

{{/* What of the StatefulSet itself both have. Takes (list $ "broker" $.Values.broker). */}}
{{- define "tank.set" -}}
{{- $its := index . 2 -}}
# Always said: what is patched by hand would stay through upgrades, and none of them would show it.
updateStrategy:
  type: {{ $its.updateStrategy.type }}
  {{- if eq $its.updateStrategy.type "RollingUpdate" }}
  rollingUpdate:
    partition: {{ int $its.updateStrategy.partition }}
  {{- end }}
{{- end }}

{{/* Volumes that the user adds, and the data's own where it isn't to last. Takes (list $ $.Values.broker). */}}
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

{{/* The environment that both have. */}}
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
# For the command `tank`, in `kubectl exec`.
- name: TANK_SERVERS
  value: {{ include "tank.address" . }}
- name: TANK_CONTROLLERS
  valueFrom: {configMapKeyRef: {name: {{ include "tank.members" . }}, key: controllers}}
{{- end }}

{{/*
The volume of each pod. A StatefulSet never takes another size or class: that is said here, with what to do, and not by the API server.
Takes (list $ "broker" $.Values.broker).
*/}}
{{- define "tank.volume" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 }}{{- $its := index . 2 -}}
{{- $name := include (printf "tank.%s" $kind) $top -}}
{{- $live := include "tank.live" (list $top $kind) | fromJson -}}
{{- $kubectl := printf "kubectl -n %s" $top.Release.Namespace -}}
{{- $anew := printf "take the StatefulSet away, not its pods, and upgrade again, which makes it anew around them:\n  %s delete statefulset %s --cascade=orphan\nGive that upgrade --set %s.replicas=%d as well, and write it into your values: it is the number of now, which nobody remembers once the StatefulSet is gone. Pods beyond the values' number would be drained and removed." $kubectl $name $kind (int (dig "spec" "replicas" (int $its.replicas) $live)) -}}
{{- $claims := dig "spec" "volumeClaimTemplates" list $live -}}
{{- if and $live (ne (empty $claims) $its.storage.emptyDir) }}
{{- fail (printf "\n\n%s.storage.emptyDir is %t, and the StatefulSet %s has %s. Kubernetes lets nobody change that in place, and no message would come along: install a cluster anew under another name, copy what is to stay, and uninstall this one.\n" $kind $its.storage.emptyDir $name (ternary "no volumes" "volumes" (empty $claims))) }}
{{- end }}
{{- range $claim := $claims }}
{{- $size := .spec.resources.requests.storage }}
{{- if ne (include "tank.bytes" $size) (include "tank.bytes" $its.storage.size) }}
{{- fail (printf "\n\n%s.storage.size is %s, the StatefulSet %s has %s. Kubernetes lets nobody change that in place. First let the volumes grow, where their storage class can:\n  %s get pvc -l app.kubernetes.io/instance=%s,app.kubernetes.io/component=%s -o name | xargs -I PVC %s patch PVC --type merge -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"%s\"}}}}'\nthen %s\n" $kind $its.storage.size $name $size $kubectl $top.Release.Name $kind $kubectl $its.storage.size $anew) }}
{{- end }}
{{- $class := .spec.storageClassName | default "" }}
{{- if ne $class $its.storage.className }}
{{- fail (printf "\n\n%s.storage.className is %q, the StatefulSet %s has %q (empty: the cluster's default). Kubernetes lets nobody change that in place, and a volume stays of the class that it was made of. To go on with the old class, give %s.storage.className its name again. For the new one, %s\nThen empty one pod after the other; each gets a volume of the new class, and is filled by the others (a single pod has none, and would lose all it has). Wait each time until `tank cluster status` finds nothing missing, before the next:\n  %s delete pvc data-%s-0 --wait=false && %s delete pod %s-0\n" $kind $its.storage.className $name $class $kind $anew $kubectl $name $kubectl $name) }}
{{- end }}
{{- range $field := list "labels" "annotations" }}
{{- $before := dig "metadata" $field dict $claim | default dict }}{{- $now := get $its.storage $field }}
{{- if ne (toJson $before) (toJson $now) }}
{{- fail (printf "\n\n%s.storage.%s is %s, the StatefulSet %s has %s. Kubernetes lets nobody change that in place: %s\nVolumes that are there keep what they have: kubectl label, or kubectl annotate, changes them.\n" $kind $field (toJson $now) $name (toJson $before) $anew) }}
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

{{/* What a pod's volume is to be. Takes $.Values.broker. */}}
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
