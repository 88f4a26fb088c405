{{/* The release's name, which all names begin with. */}}
{{- define "flotilla.name" -}}
{{- $name := ternary .Release.Name (printf "%s-flotilla" .Release.Name) (contains "flotilla" .Release.Name) -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Names of cluster-wide objects: unique among the tenants' installations. */}}
{{- define "flotilla.clusterName" -}}
{{- if .Values.multitenant.enable }}{{ include "flotilla.name" . }}-{{ .Release.Namespace }}{{ else }}{{ include "flotilla.name" . }}{{ end -}}
{{- end -}}

{{/* What selects the pods of a role: (list . "worker"). */}}
{{- define "flotilla.selector" -}}
app.kubernetes.io/name: flotilla
app.kubernetes.io/instance: {{ (first .).Release.Name }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{/* Labels of objects of a role: (list . "worker"). */}}
{{- define "flotilla.labels" -}}
{{- $root := first . -}}
{{ include "flotilla.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end -}}

{{- define "flotilla.workerAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create }}{{ include "flotilla.name" . }}-worker
{{- else }}default{{ end -}}
{{- end -}}

{{/* The Secret with a role's certificate: (list . "worker"). */}}
{{- define "flotilla.tlsSecret" -}}
{{- $root := first . -}}
{{- $given := ternary $root.Values.tls.coordinatorSecret $root.Values.tls.workerSecret (eq (last .) "coordinator") -}}
{{- $given | default (printf "%s-%s-tls" (include "flotilla.name" $root) (last .)) -}}
{{- end -}}

{{/* The fields of a pod that do not depend on its role. */}}
{{- define "flotilla.pod" -}}
{{- $root := first . -}}
{{- $v := $root.Values -}}
{{- with $v.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
securityContext: {{- toYaml $v.podSecurityContext | nindent 2 }}
{{- with $v.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
{{- if $v.affinity }}
{{- toYaml $v.affinity | nindent 2 }}
{{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "flotilla.selector" . | nindent 14 }}
{{- end }}
{{- with $v.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels: {{- include "flotilla.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of a pod: (list . "worker"). */}}
{{- define "flotilla.podMetadata" -}}
{{- $root := first . -}}
{{- $v := $root.Values -}}
labels: {{- include "flotilla.labels" . | nindent 2 }}
{{- with $v.podLabels }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- $scrape := and $v.metrics.enable (not $v.metrics.podMonitor.enable) -}}
{{- $settings := and (eq (last .) "worker") $v.createAzureOperatorSecret -}}
{{- if or $scrape $settings $v.podAnnotations }}
annotations:
{{- if $settings }}
  # A change of the settings restarts the workers, one after another.
  checksum/settings: {{ include (print $root.Template.BasePath "/worker/settings.yaml") $root | sha256sum }}
{{- end }}
{{- if $scrape }}
  prometheus.io/scrape: "true"
  prometheus.io/port: {{ $v.metrics.port | quote }}
  prometheus.io/path: /metrics
{{- end }}
{{- with $v.podAnnotations }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The fields of a container that do not depend on its role: (list . "worker"). */}}
{{- define "flotilla.container" -}}
{{- $root := first . -}}
{{- $v := $root.Values -}}
image: "{{ $v.image.repository }}:{{ $v.image.tag | default $root.Chart.AppVersion }}"
imagePullPolicy: {{ $v.image.pullPolicy }}
securityContext: {{- toYaml $v.securityContext | nindent 2 }}
startupProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 1, failureThreshold: 60}
livenessProbe: {httpGet: {path: /healthz, port: metrics}, periodSeconds: 10, failureThreshold: 3}
readinessProbe: {httpGet: {path: /readyz, port: metrics}, periodSeconds: 5}
{{- end -}}

{{/* Environment variables of every member: (list . "worker"). */}}
{{- define "flotilla.env" -}}
{{- $root := first . -}}
{{- $v := $root.Values -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: FLOTILLA_METRICS_ADDR, value: ":{{ $v.metrics.port }}"}
- {name: FLOTILLA_LOG_FORMAT, value: {{ ternary "json" "text" $v.useJSONLogging }}}
- {name: FLOTILLA_LOG_LEVEL, value: {{ $v.logLevel | quote }}}
{{- if not $v.useJSONLogging }}
- {name: NO_COLOR, value: "1"}
{{- end }}
{{- with $v.otlpEndpoint }}
- {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- if $v.tls.enable }}
- {name: FLOTILLA_TLS_CERT, value: /etc/flotilla/tls/tls.crt}
- {name: FLOTILLA_TLS_KEY, value: /etc/flotilla/tls/tls.key}
- {name: FLOTILLA_TLS_CA, value: /etc/flotilla/tls/ca.crt}
{{- end }}
{{- with $v.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
