{{/* What both kinds of pods have: security, placement. Takes (list $ "broker" $.Values.broker). */}}
{{- define "tank.pod" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 }}{{- $its := index . 2 -}}
serviceAccountName: {{ include (printf "tank.%s" $kind) $top }}
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
{{- with $top.Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
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
{{- $spread := $top.Values.topologySpread }}
{{- if or $spread.hosts $spread.zones }}
topologySpreadConstraints:
{{- range $pair := list (list "kubernetes.io/hostname" $spread.hosts) (list "topology.kubernetes.io/zone" $spread.zones) }}
{{- if index $pair 1 }}
  - maxSkew: 1
    topologyKey: {{ index $pair 0 }}
    whenUnsatisfiable: {{ index $pair 1 }}
    labelSelector:
      matchLabels: {{- include "tank.selector" (list $top $kind) | nindent 8 }}
{{- end }}
{{- end }}
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

{{/* What both containers have but for their environment. Takes (list $ $.Values.broker startupSeconds). */}}
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
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: {{ int (index . 2) }}
# It answers as long as the event loop turns: a slow process is left alone, one that has hung for two minutes is not.
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 12
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{/* The environment that both have. */}}
{{- define "tank.env" -}}
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
{{- range dig "spec" "volumeClaimTemplates" list $live }}
{{- $size := .spec.resources.requests.storage }}
{{- if ne (include "tank.bytes" $size) (include "tank.bytes" $its.storage.size) }}
{{- fail (printf "\n\n%s.storage.size is %s, the StatefulSet %s has %s. Kubernetes lets nobody change that in place. First let the volumes grow, where their storage class can:\n  %s get pvc -l app.kubernetes.io/instance=%s,app.kubernetes.io/component=%s -o name | xargs -I PVC %s patch PVC --type merge -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"%s\"}}}}'\nthen %s\n" $kind $its.storage.size $name $size $kubectl $top.Release.Name $kind $kubectl $its.storage.size $anew) }}
{{- end }}
{{- $class := .spec.storageClassName | default "" }}
{{- if ne $class $its.storage.className }}
{{- fail (printf "\n\n%s.storage.className is %q, the StatefulSet %s has %q (empty: the cluster's default). Kubernetes lets nobody change that in place, and a volume stays of the class that it was made of. To go on with the old class, give %s.storage.className its name again. For the new one, %s\nThen empty one pod after the other; each gets a volume of the new class, and is filled by the others (a single pod has none, and would lose all it has). Wait each time until `tank cluster status` finds nothing missing, before the next:\n  %s delete pvc data-%s-0 --wait=false && %s delete pod %s-0\n" $kind $its.storage.className $name $class $kind $anew $kubectl $name $kubectl $name) }}
{{- end }}
{{- end -}}
persistentVolumeClaimRetentionPolicy:
  whenDeleted: {{ $top.Values.persistence.whenDeleted }}
  whenScaled: Retain
volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: data
    spec:
      accessModes: [ReadWriteOnce]
      volumeMode: Filesystem
      {{- with $its.storage.className }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests:
          storage: {{ $its.storage.size }}
{{- end }}

{{/* A quantity of bytes as a number: Kubernetes writes 1024Gi as 1Ti. */}}
{{- define "tank.bytes" -}}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "P" 1000000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- mulf (regexFind "^[0-9.]+" . | float64) (get $factors (regexFind "[A-Za-z]*$" .)) | printf "%.0f" -}}
{{- end }}
