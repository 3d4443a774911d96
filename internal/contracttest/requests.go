package contracttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"lksms/gen/api"
)

// Operation is one of the contract.
type Operation struct {
	ID, Method string
	Path       string   // with names in braces where parameters stand
	Bodies     [][]byte // the examples of its body
}

// Operations are those of the contract, in the order of their ids.
var Operations = sync.OnceValues(func() ([]Operation, error) {
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	var all []Operation
	for path, item := range spec.Paths.Map() {
		for method, o := range item.Operations() {
			one := Operation{ID: o.OperationID, Method: method, Path: path}
			if o.RequestBody != nil {
				if media := o.RequestBody.Value.Content.Get("application/json"); media != nil {
					examples := []any{media.Example}
					for _, example := range media.Examples {
						examples = append(examples, example.Value.Value)
					}
					for _, example := range examples {
						body, err := json.Marshal(example)
						if err != nil {
							return nil, fmt.Errorf("write example of %s: %w", one.ID, err)
						}
						one.Bodies = append(one.Bodies, body)
					}
				}
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the contract has no operations")
	}
	slices.SortFunc(all, func(a, b Operation) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
})

// Pick is the operation with an id; any other text stands for one of all, so that a fuzzer that changes ids reaches every operation.
func Pick(all []Operation, id string) Operation {
	for _, o := range all {
		if o.ID == id {
			return o
		}
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(id)) // it cannot fail
	return all[int(sum.Sum32()%uint32(len(all)))]
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// Target is an address of the operation: the parameters of its path are the parts of text, which a / divides; the last of them is all
// that is left.
func (o Operation) Target(text, query string) string {
	left := len(parameter.FindAllString(o.Path, -1))
	target := parameter.ReplaceAllStringFunc(o.Path, func(string) string {
		part := text
		if left--; left > 0 {
			part, text, _ = strings.Cut(text, "/")
		}
		return url.PathEscape(part)
	})
	if query != "" {
		target += "?" + query
	}
	return target
}

// MostAnswer is how many bytes an answer to so many may have, unless it is a list or a document. A hundred wrong fields are named in
// less than 32 KB. What the caller sent is told once, and JSON writes < in six bytes.
func MostAnswer(request int) int { return 32<<10 + 8*request }
