package load

// The kinds of calls that must work again after a fault.
const (
	SubmitCall = iota
	ClaimCall
	WaitCall // a claim that may wait for a task
	ReportCall
	KindsOfCalls
)

// KindNames name the kinds of calls.
var KindNames = [KindsOfCalls]string{"submission", "claim", "waiting claim", "report"}

// KindsByPath are the kinds of calls by the path of their request.
var KindsByPath = map[string]int{
	"/api/v1/sms/send": SubmitCall, "/api/v1/sms/tasks/pending": ClaimCall, "/api/v1/sms/tasks/claim": WaitCall, "/api/v1/sms/report": ReportCall,
}
