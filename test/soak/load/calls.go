package load

// The kinds of calls that must work again after a fault.
const (
	SubmitCall = iota
	ClaimCall
	WaitCall
	ReportCall
	KindsOfCalls
)

var KindNames = [KindsOfCalls]string{"submission", "claim", "waiting claim", "report"}

var KindsByPath = map[string]int{
	"/api/v1/sms/send": SubmitCall, "/api/v1/sms/tasks/pending": ClaimCall, "/api/v1/sms/tasks/claim": WaitCall, "/api/v1/sms/report": ReportCall,
}
