{{- define "peerd.name" -}}
{{- if contains "peerd" .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-peerd" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* The name under which peers find each other: it stands for the addresses of all of them, ready or not. */}}
{{- define "peerd.peers" -}}
{{ include "peerd.name" . }}-peers
{{- end -}}

{{- define "peerd.selector" -}}
app.kubernetes.io/name: peerd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "peerd.labels" -}}
{{ include "peerd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Names under which clients may call the HTTP API: a peer refuses requests for a host that it does not know. */}}
{{- define "peerd.hosts" -}}
{{- $name := include "peerd.name" . -}}
{{- $inside := printf "%s.%s" $name .Release.Namespace -}}
{{ $name }},{{ $inside }},{{ $inside }}.svc,{{ $inside }}.svc.cluster.local
{{- end -}}
