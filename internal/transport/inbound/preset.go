package inbound

import (
	"lksms/internal/dispatch/queue/submit"
)

// Custom is the preset of an inbound that has only a description of its own.
const Custom = "custom"

// preset is what is known of a program.
type preset struct {
	description Description
	messageType int16
}

// alertKey names a state of a group of alerts: a post that is repeated has the same values, and each change of an alert has others. Of alerts that
// max_alerts left out, only their number is known. The labels tell alerts apart: older Alertmanagers send no fingerprint of them.
var alertKey = []string{"groupKey", "status", "truncatedAlerts", "alerts.*.status", "alerts.*.labels.*", "alerts.*.startsAt"}

// alertCount is the number of alerts in a group, also of those that max_alerts left out. alertCounts are those of a group in which some fire and some
// are resolved.
const (
	alertCount  = "[${status}:${alerts.# + truncatedAlerts}]"
	alertCounts = "[firing:${alerts.[status=firing].#}, resolved:${alerts.[status=resolved].#}]"
)

// Of a group without a name or text in common, an alert that fires comes first.
const (
	alertName = "commonLabels.alertname | alerts.[status=firing].0.labels.alertname | alerts.0.labels.alertname"
	alertText = "commonAnnotations.summary | commonAnnotations.description | alerts.[status=firing].0.annotations.summary | " +
		"alerts.[status=firing].0.annotations.description | alerts.0.annotations.summary | alerts.0.annotations.description"
)

// presets has the description of each program by its name. The fields are those that the program posts.
var presets = map[string]preset{
	"alertmanager": {messageType: submit.Notification, description: Description{
		Expect: map[string][]string{"version": {"4"}, "status": {"firing", "resolved"}},
		Text: []string{
			alertCounts + " ${" + alertName + "}: ${" + alertText + "}",
			alertCount + " ${" + alertName + "}: ${" + alertText + "}",
			alertCounts + " ${" + alertName + "}",
			alertCount + " ${" + alertName + "}",
			alertCount + " ${groupKey}", // an alert may have no name
		},
		Dedup: alertKey,
	}},
	"grafana": {messageType: submit.Notification, description: Description{
		Expect: map[string][]string{"status": {"firing", "resolved"}},
		// The title is a template of the contact point, and by default has the status, the count and the name.
		Text: []string{
			"${title}: ${" + alertText + "}", "${title}",
			alertCounts + " ${" + alertName + "}",
			alertCount + " ${" + alertName + "}",
		},
		Dedup: alertKey,
	}},
	// It posts once for each subscriber. A campaign of another content type is HTML. The body belongs to the key, because a test of a campaign has the
	// same ids.
	"listmonk": {messageType: submit.Marketing, description: Description{
		Expect: map[string][]string{"content_type": {"plain"}},
		Number: new("recipients.*.attribs.phone"),
		Text:   []string{"${body}"},
		Dedup:  []string{"campaign.uuid", "recipients.*.uuid", "body"},
	}},
	// The number is a member that the URL of Apprise adds: ?:phone_number=...
	"apprise": {messageType: submit.Notification, description: Description{
		Number: new("phone_number"),
		Text:   []string{"${title}: ${message}", "${message}"},
	}},
	"uptime-kuma": {messageType: submit.Notification, description: Description{
		Text:  []string{"${msg}"},
		Dedup: []string{"heartbeat.monitorID", "heartbeat.time", "heartbeat.status"},
	}},
	// It keeps numbers as digits, with the country code.
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
