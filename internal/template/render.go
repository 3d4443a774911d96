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

// maxContent is the maximum length of a rendered message in characters: what the database stores. The settings may allow less, and package queue
// checks that.
const maxContent = 1024

// placeholder matches a name in braces. A name can be in any script, with combining marks and joiners. Braces around
// anything else are plain text.
var placeholder = regexp.MustCompile(`\{([\p{L}\p{M}\p{N}_.\x{200C}\x{200D}-]+)\}`)

// spaced matches a name in braces with spaces around or in it: probably meant as a placeholder, but none.
var spaced = regexp.MustCompile(`\{([\s\p{Z}]*[\p{L}\p{M}\p{N}_.\x{200C}\x{200D}-][\p{L}\p{M}\p{N}_.\x{200C}\x{200D}\s\p{Z}-]*)\}`)

// check rejects a template with a spaced placeholder, which would send the name of a parameter instead of its value.
func check(text string) error {
	for _, found := range spaced.FindAllString(text, -1) {
		if !placeholder.MatchString(found) {
			return fault.InvalidField("template_content", fault.SpacedPlaceholder, found)
		}
	}
	return nil
}

// render replaces the placeholders of text by the form-encoded params (S0.8): + is a space, %XX is UTF-8, the first
// of two equal names counts, a value can be blank but not missing. Values are not expanded again. Text beyond the
// maximum length is not built. All errors are faults of the field content.
func render(text, params string) (string, error) {
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
		if length += utf8.RuneCountInString(s); length <= maxContent {
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
	case length > maxContent:
		return "", fault.InvalidField("content", fault.RenderedTooLong, fault.Lengths{Has: int64(length), Most: maxContent})
	case strings.TrimSpace(out.String()) == "":
		return "", fault.InvalidField("content", fault.RenderedBlank, nil)
	}
	return out.String(), nil
}

// parseParams parses a form body as browsers write it. It splits pairs at & only, so that a ; is text; url.ParseQuery
// would reject the whole body for a ;.
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
		name = norm.NFC.String(name) // a name can be written with precomposed characters or combining marks
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
