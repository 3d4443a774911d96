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
	bodies     map[string]int64    // the most bytes of one, of operations that have one

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
	bodies := bodiesOf(spec)
	spec.Paths.Find(callbackPath).Post.RequestBody = nil // any body is valid, and the validator would copy it
	return &contract{
		spec: spec, roles: roles, keyed: keyedOperations(spec), parameters: parametersOf(spec), bodies: bodies,
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
