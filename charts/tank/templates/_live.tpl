{{/*
What Kubernetes has of a StatefulSet, as JSON: nothing before the first installation, and nothing in `helm template`, which looks nothing
up. Takes (list $ "broker").
*/}}
{{- define "tank.live" -}}
{{- $top := index . 0 -}}
{{ lookup "apps/v1" "StatefulSet" $top.Release.Namespace (include (printf "tank.%s" (index . 1)) $top) | default dict | toJson }}
{{- end }}
