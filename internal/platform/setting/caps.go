package setting

// Caps are the maximum numbers of messages that a person gets within a minute, an hour and a day. 0 means no maximum.
type Caps struct{ PerMinute, PerHour, PerDay int64 }

// Caps returns the caps of a message type.
func (r Recipient) Caps(messageType int16) Caps {
	return [...]Caps{
		{r.CapsVerificationMinute, r.CapsVerificationHour, r.CapsVerificationDay},
		{r.CapsNotificationMinute, r.CapsNotificationHour, r.CapsNotificationDay},
		{r.CapsMarketingMinute, r.CapsMarketingHour, r.CapsMarketingDay},
	}[messageType]
}
