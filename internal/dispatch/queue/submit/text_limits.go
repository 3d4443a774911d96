package submit

import (
	"context"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"lksms/internal/dispatch/segment"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/setting"
)

// Limits are the maximum length of a short message of one type. The settings define these limits. The database accepts at most 1024 characters.
type Limits struct{ characters, segments int64 }

// Limits returns the limits of messages of a type.
func (s *Service) Limits(ctx context.Context, messageType int16) (Limits, error) {
	values, err := s.settings.Get(ctx)
	return limitsOf(values.SMS, messageType), err
}

func limitsOf(values setting.SMS, messageType int16) Limits {
	return [...]Limits{
		{values.MaxContentVerification, values.MaxSegmentsVerification},
		{values.MaxContentNotification, values.MaxSegmentsNotification},
		{values.MaxContentMarketing, values.MaxSegmentsMarketing},
	}[messageType]
}

// Check returns request.invalid for the field content if the text has too many characters, or if the text with its signature has too many segments.
func (l Limits) Check(sign, content string) error {
	if n := int64(utf8.RuneCountInString(content)); n > l.characters {
		return fault.InvalidField("content", fault.TooManyCharacters, fault.Lengths{Has: n, Most: l.characters})
	}
	if n := int64(segment.Count(segment.Signed(sign, content))); n > l.segments {
		return fault.InvalidField("content", fault.TooManySegments, fault.Lengths{Has: n, Most: l.segments})
	}
	return nil
}

// Fit returns content unchanged if Check accepts it. Otherwise Fit returns the longest beginning that Check accepts, followed by an ellipsis. For a text in
// GSM 03.38, the ellipsis is three points, because the ellipsis character would change the whole text to UCS-2.
func (l Limits) Fit(sign, content string) string {
	if l.Check(sign, content) == nil {
		return content
	}
	ellipsis := "…"
	if segment.IsGSM(segment.Signed(sign, content)) {
		ellipsis = "..."
	}
	content = segment.Beginning(content, int(l.characters)) // shortens the search, because content can have up to one megabyte
	cut := func(n int) string {
		return strings.TrimRightFunc(segment.Beginning(content, n), unicode.IsSpace) + ellipsis
	}
	tooLong := sort.Search(utf8.RuneCountInString(content)+1, func(n int) bool { return l.Check(sign, cut(n)) != nil })
	return cut(max(0, tooLong-1))
}
