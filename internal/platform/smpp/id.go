package smpp

import (
	"fmt"
	"strconv"
	"strings"
)

// An IDForm describes how a carrier writes the ids of messages in answers and in receipts. Some carriers write one number in different bases: an answer contains
// 1a2b3c4d, and its receipt 439041101.
//
// A message is stored under IDKey of its answer. Its receipt is looked up under each key of Keys. A message matches by accident if another message has the id that
// one of the other keys writes in another base. The following rules prevent this:
//
//  1. The first key is the id as it was written. The other keys count only if no message has the first key.
//  2. FormAuto converts only numbers with at least seven digits in the receipt and in the converted key, because carriers with short ids count from one, and all
//     short numbers are in use.
//  3. The caller compares the recipient of a message that was found by a converted key with the source of the receipt.
//  4. If the messages of several converted keys pass, none matches.
//
// With a form other than FormAuto, exactly one key exists, so that no accident is possible. A carrier with short ids in two bases needs such a form: its receipt
// 100 reports message 64, and message 100 also exists.
type IDForm uint8

// These are the forms of ids.
const (
	FormAuto    IDForm = iota // the same, or any conversion that rule 2 allows
	FormSame                  // the same in answers and receipts
	FormHexDec                // hexadecimal in answers, decimal in receipts
	FormDecHex                // decimal in answers, hexadecimal in receipts
	formsNumber               // the number of forms
)

var idForms = [formsNumber]string{"auto", "same", "hex_dec", "dec_hex"}

// String returns the name of the form in configurations.
func (f IDForm) String() string {
	if f < formsNumber {
		return idForms[f]
	}
	return fmt.Sprintf("%d", uint8(f))
}

// ParseIDForm returns the form with a name.
func ParseIDForm(name string) (IDForm, bool) {
	for i, n := range idForms {
		if n == name {
			return IDForm(i), true
		}
	}
	return 0, false
}

// IDKey returns the key of an id. Ids with hexadecimal digits alone are the same in upper and lower case, and with and without leading zeros. Other ids are the
// same only if they are equal, because some carriers distinguish upper and lower case.
func IDKey(id string) string {
	id = strings.Trim(id, " \t\r\n\x00")
	if id == "" || strings.Trim(id, "0123456789abcdefABCDEF") != "" {
		return id
	}
	key := strings.ToLower(strings.TrimLeft(id, "0"))
	if key == "" {
		return "0"
	}
	return key
}

// StoredIDs returns the forms in which the number of a message can be stored: as a provider wrote it, and its IDKey. It returns nil for nil.
func StoredIDs(id *string) []string {
	if id == nil {
		return nil
	}
	return []string{*id, IDKey(*id)}
}

// shortestConverted is the least number of digits of both ids that FormAuto converts.
const shortestConverted = 7

// Keys returns the keys under which the message of a receipt can be stored, in the order of rule 1. It returns at least one key.
func (f IDForm) Keys(id string) []string {
	key := IDKey(id)
	if f == FormSame {
		return []string{key}
	}
	hex, isDecimal := converted(key, 10, 16)
	decimal, isHex := converted(key, 16, 10)
	switch {
	case f == FormHexDec && isDecimal:
		return []string{hex}
	case f == FormDecHex && isHex:
		return []string{decimal}
	case f != FormAuto:
		return []string{key}
	}
	keys := []string{key}
	for _, other := range []struct {
		key     string
		isValid bool
	}{{hex, isDecimal}, {decimal, isHex}} {
		if other.isValid && len(key) >= shortestConverted && len(other.key) >= shortestConverted {
			keys = append(keys, other.key)
		}
	}
	return keys
}

// converted returns the number of key in another base.
func converted(key string, from, to int) (string, bool) {
	n, err := strconv.ParseUint(key, from, 64)
	return strconv.FormatUint(n, to), err == nil
}
