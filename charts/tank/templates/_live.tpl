{{/*
What Kubernetes has of an object, as JSON: nothing before the first installation, and nothing in `helm template`, which looks nothing
up. Takes (list $ "StatefulSet" "name").
*/}}
{{- define "tank.found" -}}
{{- $top := index . 0 }}{{- $kind := index . 1 -}}
{{ lookup (ternary "apps/v1" "v1" (eq $kind "StatefulSet")) $kind $top.Release.Namespace (index . 2) | default dict | toJson }}
{{- end }}
{{/* The release's own StatefulSet. Takes (list $ "broker"). */}}
{{- define "tank.live" -}}
{{- $top := index . 0 -}}
{{ include "tank.found" (list $top "StatefulSet" (include (printf "tank.%s" (index . 1)) $top)) }}
{{- end }}
