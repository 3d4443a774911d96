package inbound

import (
	"lksms/internal/dispatch/queue/submit"
)

// Custom is the preset of an inbound that defines its complete description.
const Custom = "custom"

// preset contains the defaults for the posts of one program.
type preset struct {
	description Description
	messageType int16
}

// alertKey contains paths that identify a state of a group of alerts: repeated posts have the same values, and each change of an alert changes these values.
// For alerts that were omitted because of max_alerts, a post contains only their number. Labels identify an alert, because older Alertmanagers send no
// fingerprint.
var alertKey = []string{"groupKey", "status", "truncatedAlerts", "alerts.*.status", "alerts.*.labels.*", "alerts.*.startsAt"}

// alertCount is the status of a group with its number of alerts, including alerts that were omitted because of max_alerts. alertCounts contains the number
// of firing alerts and the number of resolved alerts.
const (
	alertCount  = "[${status}:${alerts.# + truncatedAlerts}]"
	alertCounts = "[firing:${alerts.[status=firing].#}, resolved:${alerts.[status=resolved].#}]"
)

// alertName and alertText name a group. If the alerts of the group have no common name or text, the values of the first firing alert are used. The values of a
// resolved alert are used only if no alert of the group fires.
const (
	alertName = "commonLabels.alertname | alerts.[status=firing].0.labels.alertname | [status=resolved].alerts.0.labels.alertname"
	alertText = "commonAnnotations.summary | commonAnnotations.description | alerts.[status=firing].0.annotations.summary | " +
		"alerts.[status=firing].0.annotations.description | [status=resolved].alerts.0.annotations.summary | " +
		"[status=resolved].alerts.0.annotations.description"
)

// presets contains the preset of each program by name. The paths refer to the posts of the program.
var presets = map[string]preset{
	"alertmanager": {messageType: submit.Notification, description: Description{
		Expect: map[string][]string{"version": {"4"}, "status": {"firing", "resolved"}},
		Text: []string{
			alertCounts + " ${" + alertName + "}: ${" + alertText + "}",
			alertCount + " ${" + alertName + "}: ${" + alertText + "}",
			alertCounts + " ${" + alertName + "}",
			alertCount + " ${" + alertName + "}",
			alertCount + " ${groupKey}", // the alerts possibly have no name
		},
		Dedup: alertKey,
	}},
	"grafana": {messageType: submit.Notification, description: Description{
		Expect: map[string][]string{"status": {"firing", "resolved"}},
		// The title is a template of the contact point. Its default contains the status, the count and the name.
		Text: []string{
			"${title}: ${" + alertText + "}", "${title}",
			alertCounts + " ${" + alertName + "}",
			alertCount + " ${" + alertName + "}",
			alertCount + " ${groupKey}",
		},
		Dedup: alertKey,
	}},
	// listmonk posts once for each subscriber. The text of a campaign with another content type is HTML. The dedup key includes the body, because a test of a
	// campaign has the same ids as the campaign.
	"listmonk": {messageType: submit.Marketing, description: Description{
		Expect: map[string][]string{"content_type": {"plain"}},
		Number: new("recipients.*.attribs.phone"),
		Text:   []string{"${body}"},
		Dedup:  []string{"campaign.uuid", "recipients.*.uuid", "body"},
	}},
	// The URL in Apprise ends with ?:phone_number=..., so Apprise adds the member phone_number to its posts.
	"apprise": {messageType: submit.Notification, description: Description{
		Number: new("phone_number"),
		Text:   []string{"${title}: ${message}", "${message}"},
	}},
	"uptime-kuma": {messageType: submit.Notification, description: Description{
		Text:  []string{"${msg}"},
		Dedup: []string{"heartbeat.monitorID", "heartbeat.time", "heartbeat.status"},
	}},
	// Logto stores numbers as digits with the country code.
	"logto": {messageType: submit.Verification, description: Description{
		Number: new("to"), International: new(true),
		Text:   []string{"Your verification code is ${payload.code}", "${payload.link}"},
		Params: map[string]string{"code": "payload.code"},
	}},
	"novu": {messageType: submit.Notification, description: Description{
		Number: new("to"),
		Text:   []string{"${content}"},
		Params: map[string]string{"content": "content"},
		Dedup:  []string{"id"},
	}},
	Custom: {messageType: submit.Notification},
}
