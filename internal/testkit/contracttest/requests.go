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

// Operation is an operation of the contract.
type Operation struct {
	ID, Method string
	Path       string   // with a name in braces for each parameter
	Bodies     [][]byte // examples of the request body
}

// Operations returns the operations of the contract, in the order of their ids.
var Operations = sync.OnceValues(func() ([]Operation, error) {
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	var all []Operation
	for path, item := range spec.Paths.Map() {
		for method, o := range item.Operations() {
			// The ids in the generated copy of the contract are Go method names, which begin with a capital letter.
			one := Operation{ID: strings.ToLower(o.OperationID[:1]) + o.OperationID[1:], Method: method, Path: path}
			if o.RequestBody != nil {
				if media := o.RequestBody.Value.Content.Get("application/json"); media != nil {
					var examples []any
					if media.Example != nil {
						examples = append(examples, media.Example)
					}
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

// Pick returns the operation with this id. For any other text, it returns an operation that a hash of the text selects, so that a fuzzer that changes ids
// reaches all operations.
func Pick(all []Operation, id string) Operation {
	for _, o := range all {
		if o.ID == id {
			return o
		}
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(id)) // never fails
	return all[int(sum.Sum32()%uint32(len(all)))]
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// Target returns a URL of the operation. text contains the values of the path parameters, separated by /. The last parameter gets the whole rest of text.
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

// MaxAnswer returns the maximum size of the response to a request of this size, both in bytes. It does not apply to lists and documents. A response with a
// hundred invalid fields needs less than 32 KB. A response repeats the input at most once, and JSON can encode one byte (such as <) in six bytes.
func MaxAnswer(request int) int { return 32<<10 + 8*request }
