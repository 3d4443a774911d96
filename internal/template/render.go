package template

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"lksms/internal/fault"
	"lksms/internal/postgres"
)

// MaxContent is the length of a message, in characters (S0.1).
const MaxContent = 200

// placeholder is a name in braces, in any script: with its combining marks and joiners. Braces around anything else are plain
// text.
var placeholder = regexp.MustCompile(`\{([\p{L}\p{M}\p{N}_.\x{200C}\x{200D}-]+)\}`)

// spaced is what was meant as a placeholder and is none: a name in braces with spaces around or in it.
var spaced = regexp.MustCompile(`\{([\s\p{Z}]*[\p{L}\p{M}\p{N}_.\x{200C}\x{200D}-][\p{L}\p{M}\p{N}_.\x{200C}\x{200D}\s\p{Z}-]*)\}`)

// check refuses a template that would send the name of a parameter instead of its value.
func check(text string) error {
	for _, found := range spaced.FindAllString(text, -1) {
		if !placeholder.MatchString(found) {
			return fault.InvalidField("template_content", fault.SpacedPlaceholder, found)
		}
	}
	return nil
}

// Render puts the form-encoded params into text (S0.8): + is a space, %XX is UTF-8, the first of two equal names counts,
// a value may be blank but not missing. It goes over text once, so a value is never expanded again, and it stops as soon
// as the result is too long. Failures are faults that name the field content.
func Render(text, params string) (string, error) {
	values, err := parseParams(params)
	if err != nil {
		return "", err
	}
	var (
		out     strings.Builder
		length  int
		missing []string
		end     int
	)
	write := func(s string) {
		if length += utf8.RuneCountInString(s); length <= MaxContent {
			out.WriteString(s)
		}
	}
	for _, at := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		write(text[end:at[0]])
		end = at[1]
		name := norm.NFC.String(text[at[2]:at[3]])
		value, ok := values[name]
		if !ok && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
		write(value)
	}
	write(text[end:])
	switch {
	case len(missing) > 0:
		return "", fault.InvalidField("content", fault.MissingParameters, strings.Join(missing, ", "))
	case length > MaxContent:
		return "", fault.InvalidField("content", fault.RenderedTooLong, MaxContent)
	case strings.TrimSpace(out.String()) == "":
		return "", fault.InvalidField("content", fault.RenderedBlank, nil)
	}
	return out.String(), nil
}

// parseParams reads a form body as browsers write it: pairs are split at & alone, so that a ; is text.
// url.ParseQuery would refuse the whole body for a ;.
func parseParams(params string) (map[string]string, error) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(params, "&") {
		if pair == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := unescape(rawName)
		if err != nil {
			return nil, err
		}
		name = norm.NFC.String(name) // one name may be written with marks or without
		value, err := unescape(rawValue)
		if err != nil {
			return nil, err
		}
		if _, taken := values[name]; !taken {
			values[name] = value
		}
	}
	return values, nil
}

func unescape(s string) (string, error) {
	text, err := url.QueryUnescape(s)
	if err != nil || !postgres.IsText(text) {
		return "", fault.InvalidField("content", fault.NotFormEncoded, nil)
	}
	return text, nil
}
