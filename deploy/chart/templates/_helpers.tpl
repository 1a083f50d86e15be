{{/* The arguments of nodeclaim-controller, one a line. */}}
{{- define "nodeclaim-controller.args" -}}
- run
- --mode
- {{ .Values.mode }}
- --metrics-address
- {{ .Values.metrics.address | quote }}
{{- range .Values.karpenterNamespaces }}
- --karpenter-namespace={{ . }}
{{- end }}
{{- range .Values.replacementFirst }}
- --replacement-first={{ . }}
{{- end }}
{{- if include "nodeclaim-controller.standalone" . }}
{{- if ne .Values.standalone.nodeIdentity "ec2" }}
- --node-identity={{ .Values.standalone.nodeIdentity }}
{{- end }}
{{- if .Values.standalone.terminate }}
- --terminate
{{- end }}
{{- else if or .Values.standalone.terminate (ne .Values.standalone.nodeIdentity "ec2") }}
{{- fail "standalone.terminate and standalone.nodeIdentity need mode: standalone or mode: auto" }}
{{- end }}
{{- if .Values.completeLifecycleActions }}
- --complete-lifecycle-actions
{{- if ne .Values.lifecycleHook "nodeclaimd" }}
- --lifecycle-hook={{ .Values.lifecycleHook }}
{{- end }}
{{- else if ne .Values.lifecycleHook "nodeclaimd" }}
{{- fail "lifecycleHook needs completeLifecycleActions: true" }}
{{- end }}
{{- if .Values.outOfServiceTaint }}
- --out-of-service-taint
{{- end }}
{{- range $name, $value := .Values.options }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}

{{/* May the controller run standalone? Then it needs more rights. */}}
{{- define "nodeclaim-controller.standalone" -}}
{{- if ne .Values.mode "karpenter" }}true{{ end }}
{{- end }}

{{- define "nodeclaim-controller.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}
