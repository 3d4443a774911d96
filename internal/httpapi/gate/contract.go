package gate

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"lksms/gen/api"
)

// contract is what the door goes by.
type contract struct {
	spec       *openapi3.T         // what requests are checked against
	roles      map[string][]string // who may call each operation
	keyed      map[string]bool     // operations that take an Idempotency-Key
	parameters map[string][]string // of each operation's query
	limits     map[string]limits   // of each operation

	costly  map[string]bool  // operations that need a turn
	batches map[string]Batch // by operation
	changes Batch            // of settings
}

// readContract reads the contract once for all servers of a process; reading it takes longer than the rest of a start, and
// nobody writes to it afterwards.
var readContract = sync.OnceValues(func() (*contract, error) {
	// The library's own is a pattern, which lets the 30th of February through.
	openapi3.DefineStringFormatValidator("date-time", openapi3.NewCallbackValidator(checkTime))
	spec, err := api.GetSpec()
	if err != nil {
		return nil, fmt.Errorf("load contract: %w", err)
	}
	roles, err := rolesOf(spec)
	if err != nil {
		return nil, err
	}
	spec.Security = nil // who sends a request has been settled by guard
	batches := map[string]Batch{
		"POST " + sendBatchPath:   relax[api.SendRequest](spec, sendBatchPath, "messages"),
		"POST " + reportBatchPath: relax[api.ReportRequest](spec, reportBatchPath, "reports"),
	}
	limits, err := limitsOf(spec)
	if err != nil {
		return nil, err
	}
	spec.Paths.Find(callbackPath).Post.RequestBody = nil // any body is valid, and the validator would copy it
	return &contract{
		spec: spec, roles: roles, keyed: keyedOperations(spec), parameters: parametersOf(spec), limits: limits,
		costly: costlyOperations(spec, maps.Keys(batches)), batches: batches,
		changes: Batch{item: spec.Components.Schemas["SettingsChange"].Value},
	}, nil
})

// checkTime refuses what is no time, and a time that could be stored and not be shown again: JSON knows the years 0 to 9999, and a
// zone may move a time from the year 0 into the one before.
func checkTime(text string) error {
	var at time.Time
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	if year := at.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Errorf("the year %d is not between 1 and 9999", year)
	}
	return nil
}

// limitsKey is where the contract, and an operation that has others, has its limits.
const limitsKey = "x-lksms-limits"

// limits are what a request may take.
type limits struct {
	bodyBytes int64 // 0: the operation has no body
	time      time.Duration
}

// limitsOf reads the limits of each operation from the contract, by its pattern in a ServeMux. An operation that could not be answered
// in time is an error.
func limitsOf(spec *openapi3.T) (map[string]limits, error) {
	usual, _ := spec.Info.Extensions[limitsKey].(map[string]any)
	all := map[string]limits{}
	for pattern, operation := range operationsOf(spec) {
		own, _ := operation.Extensions[limitsKey].(map[string]any)
		number := func(name string) float64 {
			for _, from := range []map[string]any{own, usual} {
				if n, is := from[name].(float64); is {
					return n
				}
			}
			return 0
		}
		l := limits{bodyBytes: int64(number("body_bytes")), time: time.Duration(number("seconds") * float64(time.Second))}
		if l.bodyBytes <= 0 || l.bodyBytes > bodiesOfOne || l.time <= 0 || l.time > LongestAnswer {
			return nil, fmt.Errorf("contract: %s of %s: %+v is out of range", limitsKey, pattern, l)
		}
		if operation.RequestBody == nil {
			l.bodyBytes = 0
		}
		all[pattern] = l
	}
	return all, nil
}
