package inbound

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lksms/internal/dispatch/phone"
	"lksms/internal/platform/characters"
	"lksms/internal/platform/fault"
)

// Description defines how a body is converted to messages. Its format resembles the configuration of http-sms. Paths name the fields of a body. A path
// consists of names and indexes, separated by points. The part * means each item of a list. The part [name=value] means the items of a list whose member name
// has this value, or an object itself if its member name has this value. A last part # means the number of items of a list.
type Description struct {
	Expect        map[string][]string `json:"expect,omitzero"`        // allowed values of the body at each path
	Number        *string             `json:"number,omitzero"`        // path of the phone numbers; empty: the body contains no phone numbers
	International *bool               `json:"international,omitzero"` // numbers without + begin with their country code
	Text          []string            `json:"text,omitzero"`          // the first text whose placeholders all have a value is sent
	Params        map[string]string   `json:"params,omitzero"`        // paths of the parameters of a template
	Dedup         []string            `json:"dedup,omitzero"`         // paths of values that are equal in repeated posts; the first path must have a value
}

// over returns d with its members replaced by the non-nil members of above.
func (d Description) over(above Description) Description {
	if above.Expect != nil {
		d.Expect = above.Expect
	}
	if above.Number != nil {
		d.Number = above.Number
	}
	if above.International != nil {
		d.International = above.International
	}
	if above.Text != nil {
		d.Text = above.Text
	}
	if above.Params != nil {
		d.Params = above.Params
	}
	if above.Dedup != nil {
		d.Dedup = above.Dedup
	}
	return d
}

// Effective returns the description of an inbound. It takes the description of the preset, and replaces its members by the members of custom, which can be nil.
func Effective(ofPreset string, custom []byte) (Description, error) {
	var above Description
	if custom != nil {
		if err := json.Unmarshal(custom, &above); err != nil {
			return above, fmt.Errorf("read description: %w", err)
		}
	}
	return presets[ofPreset].description.over(above), nil
}

// hasNumber reports whether the body contains the recipients.
func (d Description) hasNumber() bool { return d.Number != nil && *d.Number != "" }

var (
	placeholderForm = regexp.MustCompile(`\$\{([^}]*)\}`)
	stepForm        = regexp.MustCompile(`^[^.*#|+\[\]]+$`)
	filterForm      = regexp.MustCompile(`^\[([^.*#|+\[\]=]+)=([^.*#|+\[\]=]+)\]$`)
)

// isPath reports whether path has a valid format.
func isPath(path string) bool {
	steps := strings.Split(path, ".")
	for i, step := range steps {
		isLast := i == len(steps)-1
		if !stepForm.MatchString(step) && !filterForm.MatchString(step) && step != "*" && (step != "#" || !isLast) {
			return false
		}
	}
	return true
}

// check returns request.invalid for a description with an invalid path.
func (d Description) check() error {
	paths := map[string][]string{"expect": slices.Collect(maps.Keys(d.Expect)), "params": slices.Collect(maps.Values(d.Params)), "dedup": d.Dedup}
	if d.hasNumber() {
		paths["number"] = []string{*d.Number}
	}
	for _, text := range d.Text {
		for _, found := range placeholderForm.FindAllStringSubmatch(text, -1) {
			for alternative := range strings.SplitSeq(found[1], "|") {
				for path := range strings.SplitSeq(alternative, "+") {
					paths["text"] = append(paths["text"], strings.TrimSpace(path))
				}
			}
		}
	}
	for _, member := range slices.Sorted(maps.Keys(paths)) {
		for _, path := range paths[member] {
			if !isPath(path) {
				return fault.InvalidField("description."+member, fault.WrongFormat, nil)
			}
		}
	}
	return nil
}

// at returns the values at a path of a body: texts, numbers, booleans, and the items of a list. It returns nil for a value that is missing, null or an
// object.
func at(value any, path string) []string {
	step, rest, isLonger := strings.Cut(path, ".")
	if path == "" {
		switch value := value.(type) {
		case string:
			return []string{value}
		case json.Number, bool:
			return []string{fmt.Sprint(value)}
		case []any:
			return at(value, "*")
		default:
			return nil
		}
	}
	if !isLonger {
		rest = ""
	}
	switch value := value.(type) {
	case map[string]any:
		if step == "*" {
			var all []string
			for _, name := range slices.Sorted(maps.Keys(value)) {
				all = append(all, at(value[name], rest)...)
			}
			return all
		}
		if filter := filterForm.FindStringSubmatch(step); filter != nil {
			if !slices.Equal(at(value, filter[1]), []string{filter[2]}) {
				return nil
			}
			return at(value, rest)
		}
		return at(value[step], rest)
	case []any:
		if filter := filterForm.FindStringSubmatch(step); filter != nil {
			return at(itemsWith(value, filter[1], filter[2]), rest)
		}
		switch step {
		case "#":
			return []string{strconv.Itoa(len(value))}
		case "*":
			var all []string
			for _, one := range value {
				all = append(all, at(one, rest)...)
			}
			return all
		}
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(value) {
			return at(value[i], rest)
		}
	}
	return nil
}

// itemsWith returns the items of a list in which member has this value. It returns nil if no such item exists.
func itemsWith(list []any, member, value string) any {
	var all []any
	for _, one := range list {
		if slices.Equal(at(one, member), []string{value}) {
			all = append(all, one)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// checkExpected returns request.invalid if the body does not contain the expected values: another program posted the body, or the format has changed.
func (d Description) checkExpected(body any) error {
	for _, path := range slices.Sorted(maps.Keys(d.Expect)) {
		values := at(body, path)
		if len(values) == 0 {
			return fault.InvalidField(path, fault.Required, nil)
		}
		for _, value := range values {
			if !slices.Contains(d.Expect[path], value) {
				return fault.InvalidField(path, fault.NotAllowed, d.Expect[path])
			}
		}
	}
	return nil
}

// value returns the text for a placeholder. It returns an empty text if the body contains no value. | separates alternatives: the first alternative with a
// value is used. + adds integers: a missing integer counts as 0.
func (d Description) value(body any, placeholder string) string {
	for alternative := range strings.SplitSeq(placeholder, "|") {
		paths := strings.Split(alternative, "+")
		if len(paths) == 1 {
			if text := strings.TrimSpace(strings.Join(at(body, strings.TrimSpace(alternative)), ", ")); text != "" {
				return characters.First(text, maxValue+1) // one character more than maxValue, so that the caller can detect the cut
			}
			continue
		}
		sum, count, areNumbers := 0, 0, true
		for _, path := range paths {
			for _, text := range at(body, strings.TrimSpace(path)) {
				n, err := strconv.Atoi(text)
				sum, count, areNumbers = sum+n, count+1, areNumbers && err == nil
			}
		}
		if count > 0 && areNumbers {
			return strconv.Itoa(sum)
		}
	}
	return ""
}

// textOf returns the first text whose placeholders all have a value. Fault: request.invalid, which names a missing path of the last text.
func (d Description) textOf(body any) (string, error) {
	missing := "text"
	for _, candidate := range d.Text {
		lacks := ""
		filled := placeholderForm.ReplaceAllStringFunc(candidate, func(found string) string {
			placeholder := found[2 : len(found)-1]
			value := d.value(body, placeholder)
			if value == "" && lacks == "" {
				lacks, _, _ = strings.Cut(placeholder, "|")
			}
			return value
		})
		if lacks == "" && strings.TrimSpace(filled) != "" {
			return strings.TrimSpace(filled), nil
		}
		if lacks != "" {
			missing = strings.TrimSpace(lacks)
		}
	}
	return "", fault.InvalidField(missing, fault.Required, nil)
}

// paramsOf returns the parameters of a template. Fault: request.invalid, which names a path that is missing in the body.
func (d Description) paramsOf(body any) (map[string]string, error) {
	params := make(map[string]string, len(d.Params))
	for _, name := range slices.Sorted(maps.Keys(d.Params)) {
		values := at(body, d.Params[name])
		if len(values) == 0 {
			return nil, fault.InvalidField(d.Params[name], fault.Required, nil)
		}
		params[name] = strings.Join(values, ", ")
	}
	return params, nil
}

// dedupOf returns the values that are equal in repeated posts. It returns nil if repeats of this body cannot be detected.
func (d Description) dedupOf(body any) [][]string {
	var parts [][]string
	for i, path := range d.Dedup {
		values := at(body, path)
		if i == 0 && len(values) == 0 {
			return nil
		}
		parts = append(parts, values)
	}
	return parts
}

// maxNumbers is the maximum number of recipients of a post.
const maxNumbers = 100

// recipient is a phone number in a body.
type recipient struct {
	number string // number that is submitted
	e164   string // number in E.164; empty: err contains the reason
	err    error
}

// isSeparator reports whether a character separates numbers. Full-width characters count, too.
func isSeparator(c rune) bool { return strings.ContainsRune(",;，；、", c) }

// numbersOf returns the recipients in a body without duplicates. A text can contain several numbers, separated by commas or semicolons. region is the
// region of numbers without a country code. Fault: request.invalid if the body contains no recipient or too many.
func (d Description) numbersOf(body any, region string) ([]recipient, error) {
	path := *d.Number
	var all []recipient
	known := map[string]bool{}
	for _, value := range at(body, path) {
		for number := range strings.FieldsFuncSeq(value, isSeparator) {
			r := recipient{number: d.dialled(strings.TrimSpace(number))}
			if r.number == "" {
				continue
			}
			r.e164, r.err = phone.Normalise(path, r.number, region)
			key := r.e164
			if r.err != nil {
				key = r.number
			}
			if known[key] {
				continue
			}
			known[key] = true
			if all = append(all, r); len(all) > maxNumbers {
				return nil, fault.InvalidField(path, fault.TooManyItems, maxNumbers)
			}
		}
	}
	if len(all) == 0 {
		return nil, fault.InvalidField(path, fault.Required, nil)
	}
	return all, nil
}

// dialled returns an international number with +. It returns any other number, and a text that is no number, unchanged.
func (d Description) dialled(number string) string {
	digits, isNumber := phone.Digits(number)
	if d.International == nil || !*d.International || !isNumber || digits == "" || digits[0] == '+' {
		return number
	}
	return "+" + strings.TrimPrefix(digits, "00")
}
