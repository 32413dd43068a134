{{/* The release's name, as far as it may begin the names of objects and be a host's. */}}
{{- define "tank.name" -}}
{{- $name := .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]" $name) }}
{{- fail (printf "the release is called %q: Services need a name that begins with a letter" .Release.Name) }}
{{- end }}
{{- $name }}
{{- end }}
{{- define "tank.controller" -}}{{ include "tank.name" . }}-controller{{- end }}
{{- define "tank.broker" -}}{{ include "tank.name" . }}-broker{{- end }}
{{/* Holds what pods learn of the controllers when they start. */}}
{{- define "tank.members" -}}{{ include "tank.name" . }}-members{{- end }}
{{/* The one cluster-wide object's name. */}}
{{- define "tank.zones" -}}{{ .Release.Namespace }}-{{ include "tank.broker" . }}-zones{{- end }}

{{- define "tank.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{/* Under what the cluster's DNS knows this namespace. */}}
{{- define "tank.domain" -}}{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}{{- end }}

{{/* Where clients find the brokers. */}}
{{- define "tank.address" -}}{{ include "tank.name" . }}.{{ include "tank.domain" . }}:{{ .Values.service.port }}{{- end }}

{{/*
How many pods a StatefulSet is to have. `kubectl scale` is how a cluster is scaled, so an upgrade leaves the number alone unless
the value of the chart was changed: the StatefulSet carries the value that it was last rendered with.
Takes (list $ "broker" $.Values.broker).
*/}}
{{- define "tank.replicas" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 }}{{- $its := index . 2 -}}
{{- $live := include "tank.live" (list $top $kind) | fromJson -}}
{{- $before := dig "metadata" "annotations" "tank/replicas-value" "" $live -}}
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

{{/* What never changes of an object's labels: selectors use it. Takes (list $ "broker"). */}}
{{- define "tank.selector" -}}
app.kubernetes.io/name: tank
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of an object, but not of a pod: versions in them would roll every pod with every chart. */}}
{{- define "tank.labels" -}}
{{- $top := index . 0 -}}
{{ include "tank.selector" . }}
app.kubernetes.io/part-of: tank
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" }}
{{- with $top.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The brokers' options as TOML. All as text, which a broker reads as well: Helm's numbers may have become 4096.0 or 1e+06. */}}
{{- define "tank.brokerOptions" -}}
# Made from broker.config.
{{- range $key, $value := .Values.broker.config }}
{{ $key }} = {{ ternary (printf "%.0f" $value) (toString $value) (kindIs "float64" $value) | quote }}
{{- end }}
{{- end }}

{{/* What chooses this release's series in Prometheus: its pods, whose names begin with the StatefulSets'. */}}
{{- define "tank.series" -}}
namespace="{{ .Release.Namespace }}",pod=~"{{ include "tank.name" . }}-(broker|controller)-[0-9]+"
{{- end }}
