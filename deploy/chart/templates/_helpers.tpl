{{/* The arguments of nodeclaim-controller, one a line. */}}
{{- define "nodeclaim-controller.args" -}}
- run
- --mode
- {{ .Values.mode }}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[[0:]+\\]):" .Values.metrics.address) }}
{{- fail (printf "metrics.address %s: probes and scrapers use the address of the pod, so listen on 0.0.0.0 or [::]" .Values.metrics.address) }}
{{- end }}
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
{{- if and (hasKey .Values.options "zone-turn") (not (include "nodeclaim-controller.standalone" .)) }}
{{- fail "options.zone-turn needs mode: standalone or mode: auto" }}
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

{{/* One release serves a cluster: no name depends on the release's. */}}
{{- define "nodeclaim-controller.name" -}}
{{- .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- define "nodeclaim-controller.fullname" -}}
{{- .Values.fullnameOverride | default (include "nodeclaim-controller.name" .) }}
{{- end }}

{{- define "nodeclaim-controller.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "nodeclaim-controller.fullname" .) }}
{{- else -}}
{{- .Values.serviceAccount.name | required "serviceAccount.create=false: name the ServiceAccount that is there, as serviceAccount.name" }}
{{- end }}
{{- end }}

{{/* What selects the pods. It never changes: a Deployment's selector is immutable. */}}
{{- define "nodeclaim-controller.selector" -}}
app.kubernetes.io/name: {{ include "nodeclaim-controller.name" . }}
{{- end }}

{{- define "nodeclaim-controller.helmLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Of each object of the controller. */}}
{{- define "nodeclaim-controller.labels" -}}
{{ include "nodeclaim-controller.selector" . }}
{{ include "nodeclaim-controller.helmLabels" . }}
{{- end }}

{{/* Of what concerns nodes. */}}
{{- define "nodeclaim-controller.nodeLabels" -}}
app.kubernetes.io/name: nodeclaimd
{{ include "nodeclaim-controller.helmLabels" . }}
{{- end }}

{{/* Of every object. */}}
{{- define "nodeclaim-controller.annotations" }}
{{- with .Values.additionalAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{/* roleRef and subjects of a binding: to the role of that kind and end of its name. */}}
{{- define "nodeclaim-controller.binds" -}}
{{- $root := index . 0 -}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ index . 1 }}, name: {{ include "nodeclaim-controller.fullname" $root }}{{ index . 2 }}}
subjects:
- {kind: ServiceAccount, name: {{ include "nodeclaim-controller.serviceAccount" $root }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}

{{/* The affinity. Unless allowManagedNodes: only on nodes that it does not manage, in each of the terms, which are alternatives. */}}
{{- define "nodeclaim-controller.affinity" -}}
{{- $affinity := deepCopy .Values.affinity }}
{{- if not .Values.allowManagedNodes }}
{{- $node := $affinity.nodeAffinity | default dict }}
{{- $required := $node.requiredDuringSchedulingIgnoredDuringExecution | default dict }}
{{- $terms := list }}
{{- range $required.nodeSelectorTerms | default (list (dict)) }}
{{- $unmanaged := dict "key" "karpenter.sh/nodepool" "operator" "DoesNotExist" }}
{{- $terms = append $terms (set . "matchExpressions" (append (.matchExpressions | default list) $unmanaged)) }}
{{- end }}
{{- $_ := set $required "nodeSelectorTerms" $terms }}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" $required }}
{{- $_ := set $affinity "nodeAffinity" $node }}
{{- end }}
{{- with $affinity }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* Constraints without a labelSelector are about the controller's pods. */}}
{{- define "nodeclaim-controller.spread" -}}
{{- $pods := dict "matchLabels" (include "nodeclaim-controller.selector" . | fromYaml) }}
{{- range .Values.topologySpreadConstraints }}
{{ toYaml (list (hasKey . "labelSelector" | ternary . (merge (dict "labelSelector" $pods) .))) }}
{{- end }}
{{- end }}

{{- define "nodeclaim-controller.image" -}}
{{- $_ := required "image.repository is not set: no registry publishes the image; push it to a registry of yours and set image.repository to it (deploy/README.md of the project's sources)" .Values.image.repository }}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (.Chart.AppVersion | replace "+" "-") }}
{{- end }}
{{- end }}

{{/* Fails where the API server has no ValidatingAdmissionPolicy, which the value named needs. */}}
{{- define "nodeclaim-controller.needsPolicies" -}}
{{- $version := (index . 0).Capabilities.KubeVersion.Version }}
{{- if semverCompare "<1.30.0-0" $version }}
{{- fail (printf "%s needs the admission policies of Kubernetes 1.30; this cluster has %s" (index . 1) $version) }}
{{- end }}
{{- end }}
