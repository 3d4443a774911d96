package queue

import (
	"context"
	"unicode/utf8"

	"lksms/internal/fault"
	"lksms/internal/segment"
	"lksms/internal/setting"
)

// Limits bound the text of a short message of one type. The settings say how, up to what the database stores: 1024 characters.
type Limits struct{ characters, segments int64 }

// Limits returns the limits of messages of a type.
func (s *Service) Limits(ctx context.Context, messageType int16) (Limits, error) {
	values, err := s.settings.Get(ctx)
	return limitsOf(values.SMS, messageType), err
}

func limitsOf(values setting.SMS, messageType int16) Limits {
	return [...]Limits{
		{values.ContentMostVerification, values.SegmentsMostVerification},
		{values.ContentMostNotification, values.SegmentsMostNotification},
		{values.ContentMostMarketing, values.SegmentsMostMarketing},
	}[messageType]
}

// Check returns request.invalid, naming content, for a text that is too long, or that takes too many segments with its signature.
func (l Limits) Check(sign, content string) error {
	if n := int64(utf8.RuneCountInString(content)); n > l.characters {
		return fault.InvalidField("content", fault.TooManyCharacters, fault.Lengths{Has: n, Most: l.characters})
	}
	if n := int64(segment.Count(segment.Signed(sign, content))); n > l.segments {
		return fault.InvalidField("content", fault.TooManySegments, fault.Lengths{Has: n, Most: l.segments})
	}
	return nil
}
