{{/* Fails where a value has another form than it needs, or would not be used, and says which: of a pattern in values.schema.json Helm prints the pattern alone. */}}
{{- define "nodeclaim-controller.forms" -}}
{{- $v := .Values }}
{{- $name := "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$" }}
{{- $label := "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" }}
{{- $duration := "^([0-9]+(ms|[smhdwy]))+$" }}
{{- $share := "^[0-9]+%?$" }}
{{- $aName := "a name of small letters, digits, - and ." }}
{{- $aLabel := "a name of small letters, digits and -" }}
{{- $aDuration := "a duration, such as 30s or 1h30m" }}
{{- $aShare := "a number or a percentage, such as 1 or 50%" }}
{{- $rows := list
  (list "image.repository" $v.image.repository "^[a-z0-9][a-zA-Z0-9._-]*(:[0-9]+)?(/[a-zA-Z0-9._-]+)*$" "a repository, such as registry.example.com/nodeclaim-controller; a tag is image.tag")
  (list "image.tag" $v.image.tag "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" "a tag of letters, digits, _, . and -")
  (list "image.digest" $v.image.digest "^sha256:[0-9a-f]{64}$" "a digest: sha256: and 64 hexadecimal digits")
  (list "nameOverride" $v.nameOverride $label $aLabel)
  (list "fullnameOverride" $v.fullnameOverride $label $aLabel)
  (list "lifecycleHook" $v.lifecycleHook "^[A-Za-z0-9_/-]{1,255}$" "a name of letters, digits, -, _ and /")
  (list "metrics.address" $v.metrics.address "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$" "an address with a port, such as 0.0.0.0:8080 or [::]:8080")
  (list "metrics.runbooks" $v.metrics.runbooks "^https?://.*/$" "an address that begins with https:// and ends with /")
  (list "metrics.interval" $v.metrics.interval "^[1-9][0-9]*(ms|s|m|h)$" "a duration, such as 30s")
  (list "metrics.namespace" $v.metrics.namespace $label $aLabel)
  (list "serviceAccount.name" $v.serviceAccount.name $name $aName)
  (list "schedulerName" $v.schedulerName $name $aName)
  (list "priorityClassName" $v.priorityClassName $name $aName)
  (list "podDisruptionBudget.maxUnavailable" $v.podDisruptionBudget.maxUnavailable "^[1-9][0-9]*%?$" $aShare)
  (list "podDisruptionBudget.minAvailable" $v.podDisruptionBudget.minAvailable $share $aShare)
}}
{{- range $key, $value := ($v.strategy | default dict).rollingUpdate }}
{{- $rows = append $rows (list (print "strategy.rollingUpdate." $key) $value $share $aShare) }}
{{- end }}
{{- $values := dict
  "mode" "mode"
  "metrics-address" "metrics.address"
  "karpenter-namespace" "karpenterNamespaces"
  "replacement-first" "replacementFirst"
  "node-identity" "standalone.nodeIdentity"
  "terminate" "standalone.terminate"
  "complete-lifecycle-actions" "completeLifecycleActions"
  "lifecycle-hook" "lifecycleHook"
  "out-of-service-taint" "outOfServiceTaint"
}}
{{- range $key, $value := $v.options }}
{{- if hasKey $values $key }}
{{- fail (printf "options.%s: it is a value of its own, %s" $key (get $values $key)) }}
{{- else if hasSuffix "-endpoint" $key }}
{{- $rows = append $rows (list (print "options." $key) $value "^https?://" "an address that begins with https://") }}
{{- else if eq $key "region" }}
{{- $rows = append $rows (list "options.region" $value "^[a-z0-9-]+$" "a region, such as us-west-2") }}
{{- else if not (has $key (list "order" "max-in-flight" "after-reboot" "rebalance" "log-level")) }}
{{- $rows = append $rows (list (print "options." $key) $value $duration $aDuration) }}
{{- end }}
{{- end }}
{{- range $key, $_ := $v.metrics.ruleLabels }}
{{- $rows = append $rows (list "metrics.ruleLabels" $key "^[a-zA-Z_][a-zA-Z0-9_]*$" "a label of Prometheus: letters, digits and _") }}
{{- end }}
{{- range $alert, $override := $v.metrics.ruleOverrides }}
{{- range $key := list "for" "keep_firing_for" }}
{{- $rows = append $rows (list (printf "metrics.ruleOverrides.%s.%s" $alert $key) (get $override $key) $duration $aDuration) }}
{{- end }}
{{- end }}
{{- range $of := list "requests" "limits" }}
{{- range $key, $value := index ($v.resources | default dict) $of }}
{{- $rows = append $rows (list (printf "resources.%s.%s" $of $key) $value "^([0-9]+([.][0-9]*)?|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$" "a quantity, such as 100m or 128Mi") }}
{{- end }}
{{- end }}
{{- $own := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- range $labels := list (list "podLabels" $v.podLabels (list (first $own))) (list "additionalLabels" $v.additionalLabels $own) (list "metrics.ruleLabels" $v.metrics.ruleLabels (list "severity")) }}
{{- range $key, $_ := index $labels 1 }}
{{- if has $key (index $labels 2) }}
{{- fail (printf "%s: the chart sets %s itself; choose another label" (first $labels) $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $v.image.pullSecrets }}{{ $rows = append $rows (list "image.pullSecrets" . $name $aName) }}{{ end }}
{{- range $v.karpenterNamespaces }}{{ $rows = append $rows (list "karpenterNamespaces" . $name $aName) }}{{ end }}
{{- range $v.replacementFirst }}{{ $rows = append $rows (list "replacementFirst" . $label $aLabel) }}{{ end }}
{{- range $v.extraVolumes }}{{ $rows = append $rows (list "extraVolumes" .name $label $aLabel) }}{{ end }}
{{- range $v.extraVolumeMounts }}{{ $rows = append $rows (list "extraVolumeMounts" .name $label $aLabel) }}{{ end }}
{{- range $rows }}
{{- $value := index . 1 | toString }}
{{- if not (or (kindIs "invalid" (index . 1)) (eq $value "") (regexMatch (index . 2) $value)) }}
{{- fail (printf "%s: %q is not %s" (index . 0) $value (index . 3)) }}
{{- end }}
{{- end }}
{{- if and $v.networkPolicy.from (not $v.networkPolicy.enabled) }}
{{- fail "networkPolicy.from needs networkPolicy.enabled: true" }}
{{- end }}
{{- if ne $v.metrics.scrape "serviceMonitor" }}
{{- if or $v.metrics.relabelings $v.metrics.metricRelabelings }}
{{- fail "metrics.relabelings and metrics.metricRelabelings need metrics.scrape: serviceMonitor" }}
{{- else if and (or $v.metrics.labels $v.metrics.namespace) (not (or $v.metrics.rules $v.metrics.dashboard)) }}
{{- fail "metrics.labels and metrics.namespace need metrics.scrape: serviceMonitor, metrics.rules: true or metrics.dashboard: true" }}
{{- end }}
{{- end }}
{{- end }}
