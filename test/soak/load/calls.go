package load

// These kinds of calls must succeed again after a fault.
const (
	SubmitCall = iota
	ClaimCall
	WaitCall // a claim that can wait for a task
	ReportCall
	KindsOfCalls
)

// KindNames are the names of the kinds of calls.
var KindNames = [KindsOfCalls]string{"submission", "claim", "waiting claim", "report"}

// KindsByPath maps the path of a request to its kind.
var KindsByPath = map[string]int{
	"/api/v1/sms/send": SubmitCall, "/api/v1/sms/tasks/pending": ClaimCall, "/api/v1/sms/tasks/claim": WaitCall, "/api/v1/sms/report": ReportCall,
}
