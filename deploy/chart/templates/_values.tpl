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
{{- $anAddress := "an address that begins with https:// or http://" }}
{{- $aShare := "a number or a percentage, such as 1 or 50%" }}
{{- $rows := list
  (list "image.repository" $v.image.repository "^[a-z0-9][a-zA-Z0-9._-]*(:[0-9]+)?(/[a-zA-Z0-9._-]+)*$" "a repository, such as registry.example.com/nodeclaim-controller; a tag is image.tag")
  (list "image.tag" $v.image.tag "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" "a tag of letters, digits, _, . and -")
  (list "image.digest" $v.image.digest "^sha256:[0-9a-f]{64}$" "a digest: sha256: and 64 hexadecimal digits")
  (list "nameOverride" $v.nameOverride $label $aLabel)
  (list "fullnameOverride" $v.fullnameOverride $label $aLabel)
  (list "lifecycleHook" $v.lifecycleHook "^[A-Za-z0-9_/-]{1,255}$" "a name of letters, digits, -, _ and /")
  (list "metrics.address" $v.metrics.address "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$" "an address with a port, such as 0.0.0.0:8080 or [::]:8080")
  (list "metrics.runbooks" $v.metrics.runbooks "^https?://.*/$" (print $anAddress " and ends with /"))
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
{{- /* As the program has them, which knows no days, and its defaults of the last three. */}}
{{- $limits := dict
  "margin" (list "0s" "10m")
  "timestamp-after" (list "0s" "10m")
  "ending-ceiling" (list "0s" "8760h")
  "zone-turn" (list "1m" "24h")
  "lease-duration" (list "1s" "1h")
  "renew-deadline" (list "1s" "1h")
  "retry-period" (list "1ms" "10m")
}}
{{- $times := dict "lease-duration" "15s" "renew-deadline" "10s" "retry-period" "2s" }}
{{- range $key, $value := $v.options }}
{{- if hasKey $values $key }}
{{- fail (printf "options.%s: it is a value of its own, %s" $key (get $values $key)) }}
{{- else if hasSuffix "-endpoint" $key }}
{{- $rows = append $rows (list (print "options." $key) $value "^https?://" $anAddress) }}
{{- else if eq $key "region" }}
{{- $rows = append $rows (list "options.region" $value "^[a-z0-9-]+$" "a region, such as us-west-2") }}
{{- else if hasKey $limits $key }}
{{- $ms := include "nodeclaim-controller.ms" $value | float64 }}
{{- $least := index $limits $key | first }}
{{- $most := index $limits $key | last }}
{{- if or (not (regexMatch "^([0-9]+(ms|[smh]))+$" $value)) (lt $ms (include "nodeclaim-controller.ms" $least | float64)) (gt $ms (include "nodeclaim-controller.ms" $most | float64)) }}
{{- fail (printf "options.%s: %q is not a duration from %s to %s, such as 1m30s" $key $value $least $most) }}
{{- end }}
{{- $_ := set $times $key $value }}
{{- end }}
{{- end }}
{{- $lease := get $times "lease-duration" }}
{{- $renew := get $times "renew-deadline" }}
{{- $retry := get $times "retry-period" }}
{{- if ge (include "nodeclaim-controller.ms" $renew | float64) (include "nodeclaim-controller.ms" $lease | float64) }}
{{- fail (printf "options.renew-deadline (%s) must be less than options.lease-duration (%s), or two would lead at once" $renew $lease) }}
{{- else if ge (mulf (include "nodeclaim-controller.ms" $retry) 6) (mulf (include "nodeclaim-controller.ms" $renew) 5) }}
{{- fail (printf "options.retry-period (%s) must be less than five sixths of options.renew-deadline (%s)" $retry $renew) }}
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
{{- range $v.env }}
{{- if eq .name "NODE_ADDRESS" }}
{{- fail "env: the chart sets NODE_ADDRESS itself" }}
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
{{- range $key := list "podSecurityContext" "securityContext" }}
{{- $user := (get $v $key | default dict).runAsUser }}
{{- if and ($v.podSecurityContext | default dict).runAsNonRoot (not (kindIs "invalid" $user)) (eq (int $user) 0) }}
{{- fail (printf "%s.runAsUser: 0 is root, which podSecurityContext.runAsNonRoot keeps from starting" $key) }}
{{- end }}
{{- end }}
{{- if not $v.allowManagedNodes }}
{{- $never := "the label karpenter.sh/nodepool needs allowManagedNodes: true; without it the pods run only on nodes that do not have the label, and would stay Pending" }}
{{- if hasKey ($v.nodeSelector | default dict) "karpenter.sh/nodepool" }}{{ fail (print "nodeSelector: " $never) }}{{ end }}
{{- $required := (($v.affinity | default dict).nodeAffinity | default dict).requiredDuringSchedulingIgnoredDuringExecution | default dict }}
{{- range $required.nodeSelectorTerms }}
{{- range .matchExpressions }}
{{- if and (eq .key "karpenter.sh/nodepool") (has .operator (list "In" "Exists")) }}{{ fail (print "affinity: " $never) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- $alertsOrDashboard := or $v.metrics.rules $v.metrics.dashboard }}
{{- if ne $v.metrics.scrape "serviceMonitor" }}
{{- if or $v.metrics.relabelings $v.metrics.metricRelabelings (ne ($v.metrics.interval | default "30s") "30s") }}
{{- fail "metrics.interval, metrics.relabelings and metrics.metricRelabelings need metrics.scrape: serviceMonitor" }}
{{- else if and (or $v.metrics.labels $v.metrics.namespace) (not $alertsOrDashboard) }}
{{- fail "metrics.labels and metrics.namespace need metrics.scrape: serviceMonitor, metrics.rules: true or metrics.dashboard: true" }}
{{- end }}
{{- end }}
{{- if and $v.metrics.dashboardAnnotations (not $v.metrics.dashboard) }}
{{- fail "metrics.dashboardAnnotations needs metrics.dashboard: true" }}
{{- else if and $v.metrics.runbooks (not $alertsOrDashboard) }}
{{- fail "metrics.runbooks needs metrics.rules: true or metrics.dashboard: true" }}
{{- else if and (or $v.metrics.disabledRules $v.metrics.ruleLabels $v.metrics.thresholds $v.metrics.ruleOverrides) (not $v.metrics.rules) }}
{{- fail "metrics.disabledRules, metrics.ruleLabels, metrics.thresholds and metrics.ruleOverrides need metrics.rules: true" }}
{{- end }}
{{- end }}

{{/* The milliseconds of a duration of the program. */}}
{{- define "nodeclaim-controller.ms" -}}
{{- $ms := 0.0 }}
{{- range regexFindAll "[0-9]+(ms|[smh])" . -1 }}
{{- $unit := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 | pluck (regexFind "[a-z]+" .) | first }}
{{- $ms = addf $ms (mulf (regexFind "[0-9]+" .) $unit) }}
{{- end }}
{{- $ms }}
{{- end }}
