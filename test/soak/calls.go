package main

// The kinds of calls that must work again after a fault.
const (
	submitCall = iota
	claimCall
	waitCall
	reportCall
	kindsOfCalls
)

var kindNames = [kindsOfCalls]string{"submission", "claim", "waiting claim", "report"}

var kindsByPath = map[string]int{
	"/api/v1/sms/send": submitCall, "/api/v1/sms/tasks/pending": claimCall, "/api/v1/sms/tasks/claim": waitCall, "/api/v1/sms/report": reportCall,
}
