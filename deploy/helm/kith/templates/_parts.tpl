{{- /* The tag of the image, which is the version of Kith. */}}
{{- define "kith.version" -}}
{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Each setting as a variable: store.cql.user is KITH_STORE__CQL__USER. */}}
{{- define "kith.settings" -}}
{{- range $key, $value := .Values.settings }}
- { name: KITH_{{ $key | upper | replace "." "__" }}, value: {{ $value | quote }} }
{{- end }}
{{- end }}

{{- /* Where pods run, and who may fetch their image. */}}
{{- define "kith.placement" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
