{{/*
What the names of objects begin with, and a host's name: fullnameOverride, or the release's name, with nameOverride behind it unless that is in it.
A longer one is cut, and the hash of the whole one keeps two that begin alike apart. A release that an older chart has installed, which cut
without a hash, keeps its names.
*/}}
{{- define "tank.name" -}}
{{- $whole := .Release.Name -}}
{{- with .Values.nameOverride }}{{- if not (contains . $.Release.Name) }}{{- $whole = printf "%s-%s" $.Release.Name . }}{{- end }}{{- end }}
{{- $whole = .Values.fullnameOverride | default $whole | replace "." "-" -}}
{{- $name := $whole -}}
{{- if gt (len $whole) 40 }}
{{- $name = $whole | trunc 40 | trimSuffix "-" }}
{{- $before := include "tank.found" (list $ "StatefulSet" (printf "%s-broker" $name)) | fromJson }}
{{- if ne (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $before) .Release.Name }}
{{- $name = printf "%s-%s" ($whole | trunc 31 | trimSuffix "-") (sha256sum $whole | trunc 8) }}
{{- end }}
{{- end }}
{{- if not (regexMatch "^[a-z]" $name) }}
{{- fail (printf "the release is called %q, but Services need a name that begins with a letter: set fullnameOverride to such a name" $whole) }}
{{- end }}
{{- $name }}
{{- end }}
{{/* The name of the software in labels and selectors. */}}
{{- define "tank.software" -}}{{ .Values.nameOverride | default "tank" }}{{- end }}
{{- define "tank.controller" -}}{{ include "tank.name" . }}-controller{{- end }}
{{- define "tank.broker" -}}{{ include "tank.name" . }}-broker{{- end }}
{{/* The name of the ConfigMap with the controllers' addresses, which pods read when they start. */}}
{{- define "tank.members" -}}{{ include "tank.name" . }}-members{{- end }}
{{/* The name of the Secret with the cluster's secret. */}}
{{- define "tank.secret" -}}{{ .Values.clusterSecret.secretName | default (printf "%s-secret" (include "tank.name" .)) }}{{- end }}
{{/* The name of the Secret with the root user of Iggy's clients. */}}
{{- define "tank.iggyRoot" -}}{{ .Values.iggy.root.secretName | default (printf "%s-iggy-root" (include "tank.name" .)) }}{{- end }}
{{/* The name of the cluster-wide role and binding. */}}
{{- define "tank.zones" -}}{{ .Release.Namespace }}-{{ include "tank.broker" . }}-zones{{- end }}

{{- define "tank.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{/* The DNS domain of this namespace. */}}
{{- define "tank.domain" -}}{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}{{- end }}

{{/* The address that clients connect to. */}}
{{- define "tank.address" -}}{{ include "tank.name" . }}.{{ include "tank.domain" . }}:{{ .Values.service.port }}{{- end }}

{{/*
How many pods a StatefulSet is to have. `kubectl scale` is how a cluster is scaled, so an upgrade leaves the number alone unless
the value of the chart was changed: the StatefulSet carries the value that it was last rendered with.
Takes (list $ "broker" $.Values.broker).
*/}}
{{- define "tank.replicas" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 }}{{- $its := index . 2 -}}
{{- $live := include "tank.live" (list $top $kind) | fromJson -}}
{{- $noted := dig "metadata" "annotations" dict $live -}}
{{- /* An older chart wrote the addresses without a domain. */}}
{{- $before := get $noted "tank-cluster.internal/replicas-value" | default (get $noted "tank/replicas-value") -}}
{{- if and $before (eq $before (toString (int $its.replicas))) -}}
{{ int (dig "spec" "replicas" (int $its.replicas) $live) }}
{{- else -}}
{{ int $its.replicas }}
{{- end }}
{{- end }}

{{/* The host of a controller's pod. Takes (list $ 0). */}}
{{- define "tank.controllerHost" -}}
{{- $top := index . 0 -}}
{{ include "tank.controller" $top }}-{{ index . 1 }}.{{ include "tank.controller" $top }}.{{ include "tank.domain" $top }}
{{- end }}

{{/* The labels that never change, for selectors. Takes (list $ "broker"). */}}
{{- define "tank.selector" -}}
app.kubernetes.io/name: {{ include "tank.software" (index . 0) }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/*
Labels of an object, but not of a pod: versions in them would roll every pod with every chart. Takes (list $ "broker"), and then the
object's own by value, each as a dictionary: an earlier one wins, the chart's own over all.
*/}}
{{- define "tank.labels" -}}
{{- $top := index . 0 -}}
{{- $labels := include "tank.selector" . | fromYaml -}}
{{- $version := printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- $labels = merge $labels (dict "app.kubernetes.io/part-of" "tank" "app.kubernetes.io/version" $top.Chart.AppVersion "app.kubernetes.io/managed-by" $top.Release.Service "helm.sh/chart" $version) -}}
{{- range slice . 2 }}{{- $labels = merge $labels (. | default dict) }}{{- end }}
{{- merge $labels $top.Values.commonLabels | toYaml }}
{{- end }}

{{/* The `annotations` of an object's metadata, if it has any. Takes (list $), and then as `tank.labels` does. */}}
{{- define "tank.annotations" -}}
{{- $annotations := dict -}}
{{- range slice . 1 }}{{- $annotations = merge $annotations (. | default dict) }}{{- end }}
{{- with merge $annotations (index . 0).Values.commonAnnotations -}}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The account that a component's pods run as. Takes (list $ "broker"). */}}
{{- define "tank.account" -}}
{{- $top := index . 0 }}{{- $its := (index $top.Values (index . 1)).serviceAccount -}}
{{ $its.name | default (ternary (include (printf "tank.%s" (index . 1)) $top) "default" $its.create) }}
{{- end }}

{{/* The Secrets with which images are pulled, each a name or an object with one. */}}
{{- define "tank.pullSecrets" -}}
{{- with .Values.imagePullSecrets -}}
imagePullSecrets:
{{- range . }}
  - name: {{ kindIs "map" . | ternary . (dict "name" .) | dig "name" "" }}
{{- end }}
{{- end }}
{{- end }}

{{/* The brokers' options as TOML. Every value is text, which brokers accept: Helm may write numbers as 4096.0 or 1e+06. */}}
{{- define "tank.brokerOptions" -}}
# Made from broker.config.
{{- range $key, $value := .Values.broker.config }}
{{ $key }} = {{ ternary (printf "%.0f" $value) (toString $value) (kindIs "float64" $value) | quote }}
{{- end }}
{{- end }}

{{/* The Prometheus selector of this release's series: those of its pods, by the names of the StatefulSets. */}}
{{- define "tank.series" -}}
namespace="{{ .Release.Namespace }}",pod=~"{{ include "tank.name" . }}-(broker|controller)-[0-9]+"
{{- end }}
