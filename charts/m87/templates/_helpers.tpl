{{/* Names are fixed: everything of m87 finds everything else by them, and a cluster has one m87. */}}
{{- define "m87.labels" -}}
app.kubernetes.io/name: m87
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: m87
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "m87.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Who the operator is to the API server; the admission policies name it. */}}
{{- define "m87.operator" -}}
system:serviceaccount:{{ .Release.Namespace }}:m87
{{- end }}

{{/* "yes" where the stamping policy is to be installed. */}}
{{- define "m87.stamp" -}}
{{- if or (eq .Values.admission.stamp "always") (and (eq .Values.admission.stamp "auto") (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy")) -}}
yes
{{- end -}}
{{- end }}

{{- define "m87.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "m87.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}
