package smpp

import "fmt"

// A Status is the command_status of a response (section 5.1.3). Carriers also define their own, from 0x400 to 0x4FF.
type Status uint32

// These are the statuses of SMPP 3.4, and those of SMPP 5.0 that carriers send.
const (
	OK               Status = 0x00000000
	RInvMsgLen       Status = 0x00000001
	RInvCmdLen       Status = 0x00000002
	RInvCmdID        Status = 0x00000003
	RInvBndSts       Status = 0x00000004
	RAlyBnd          Status = 0x00000005
	RInvPrtFlg       Status = 0x00000006
	RInvRegDlvFlg    Status = 0x00000007
	RSysErr          Status = 0x00000008
	RInvSrcAdr       Status = 0x0000000A
	RInvDstAdr       Status = 0x0000000B
	RInvMsgID        Status = 0x0000000C
	RBindFail        Status = 0x0000000D
	RInvPaswd        Status = 0x0000000E
	RInvSysID        Status = 0x0000000F
	RCancelFail      Status = 0x00000011
	RReplaceFail     Status = 0x00000013
	RMsgQFul         Status = 0x00000014
	RInvSerTyp       Status = 0x00000015
	RInvNumDests     Status = 0x00000033
	RInvDLName       Status = 0x00000034
	RInvDestFlag     Status = 0x00000040
	RInvSubRep       Status = 0x00000042
	RInvEsmClass     Status = 0x00000043
	RCntSubDL        Status = 0x00000044
	RSubmitFail      Status = 0x00000045
	RInvSrcTON       Status = 0x00000048
	RInvSrcNPI       Status = 0x00000049
	RInvDstTON       Status = 0x00000050
	RInvDstNPI       Status = 0x00000051
	RInvSysTyp       Status = 0x00000053
	RInvRepFlag      Status = 0x00000054
	RInvNumMsgs      Status = 0x00000055
	RThrottled       Status = 0x00000058
	RInvSched        Status = 0x00000061
	RInvExpiry       Status = 0x00000062
	RInvDftMsgID     Status = 0x00000063
	RXTAppn          Status = 0x00000064
	RXPAppn          Status = 0x00000065
	RXRAppn          Status = 0x00000066
	RQueryFail       Status = 0x00000067
	RInvOptParStream Status = 0x000000C0
	ROptParNotAllwd  Status = 0x000000C1
	RInvParLen       Status = 0x000000C2
	RMissingOptParam Status = 0x000000C3
	RInvOptParamVal  Status = 0x000000C4
	RDeliveryFailure Status = 0x000000FE
	RUnknownErr      Status = 0x000000FF
	RSerTypUnauth    Status = 0x00000100
	RProhibited      Status = 0x00000101
	RSerTypUnavail   Status = 0x00000102
	RSerTypDenied    Status = 0x00000103
	RInvDCS          Status = 0x00000104
	RInvSrcAddrSub   Status = 0x00000105
	RInvDstAddrSub   Status = 0x00000106
)

var statusNames = map[Status]string{
	OK: "ESME_ROK", RInvMsgLen: "ESME_RINVMSGLEN", RInvCmdLen: "ESME_RINVCMDLEN", RInvCmdID: "ESME_RINVCMDID", RInvBndSts: "ESME_RINVBNDSTS",
	RAlyBnd: "ESME_RALYBND", RInvPrtFlg: "ESME_RINVPRTFLG", RInvRegDlvFlg: "ESME_RINVREGDLVFLG", RSysErr: "ESME_RSYSERR", RInvSrcAdr: "ESME_RINVSRCADR",
	RInvDstAdr: "ESME_RINVDSTADR", RInvMsgID: "ESME_RINVMSGID", RBindFail: "ESME_RBINDFAIL", RInvPaswd: "ESME_RINVPASWD", RInvSysID: "ESME_RINVSYSID",
	RCancelFail: "ESME_RCANCELFAIL", RReplaceFail: "ESME_RREPLACEFAIL", RMsgQFul: "ESME_RMSGQFUL", RInvSerTyp: "ESME_RINVSERTYP",
	RInvNumDests: "ESME_RINVNUMDESTS", RInvDLName: "ESME_RINVDLNAME", RInvDestFlag: "ESME_RINVDESTFLAG", RInvSubRep: "ESME_RINVSUBREP",
	RInvEsmClass: "ESME_RINVESMCLASS", RCntSubDL: "ESME_RCNTSUBDL", RSubmitFail: "ESME_RSUBMITFAIL", RInvSrcTON: "ESME_RINVSRCTON",
	RInvSrcNPI: "ESME_RINVSRCNPI", RInvDstTON: "ESME_RINVDSTTON", RInvDstNPI: "ESME_RINVDSTNPI", RInvSysTyp: "ESME_RINVSYSTYP",
	RInvRepFlag: "ESME_RINVREPFLAG", RInvNumMsgs: "ESME_RINVNUMMSGS", RThrottled: "ESME_RTHROTTLED", RInvSched: "ESME_RINVSCHED",
	RInvExpiry: "ESME_RINVEXPIRY", RInvDftMsgID: "ESME_RINVDFTMSGID", RXTAppn: "ESME_RX_T_APPN", RXPAppn: "ESME_RX_P_APPN", RXRAppn: "ESME_RX_R_APPN",
	RQueryFail: "ESME_RQUERYFAIL", RInvOptParStream: "ESME_RINVOPTPARSTREAM", ROptParNotAllwd: "ESME_ROPTPARNOTALLWD", RInvParLen: "ESME_RINVPARLEN",
	RMissingOptParam: "ESME_RMISSINGOPTPARAM", RInvOptParamVal: "ESME_RINVOPTPARAMVAL", RDeliveryFailure: "ESME_RDELIVERYFAILURE",
	RUnknownErr: "ESME_RUNKNOWNERR", RSerTypUnauth: "ESME_RSERTYPUNAUTH", RProhibited: "ESME_RPROHIBITED", RSerTypUnavail: "ESME_RSERTYPUNAVAIL",
	RSerTypDenied: "ESME_RSERTYPDENIED", RInvDCS: "ESME_RINVDCS", RInvSrcAddrSub: "ESME_RINVSRCADDRSUBUNIT", RInvDstAddrSub: "ESME_RINVDSTADDRSUBUNIT",
}

// String returns the name of the specification, such as ESME_RTHROTTLED, or the number in hexadecimal.
func (s Status) String() string {
	if name, known := statusNames[s]; known {
		return name
	}
	return fmt.Sprintf("0x%08x", uint32(s))
}

// ParseStatus returns the status with a name of the specification.
func ParseStatus(name string) (Status, bool) {
	for status, n := range statusNames {
		if n == name {
			return status, true
		}
	}
	return 0, false
}

// A State is the state of a message (section 5.2.28).
type State uint8

// These are the states of messages. Scheduled and Skipped are of SMPP 5.0; 0 is also the state of a receipt without a known state.
const (
	Scheduled     State = 0
	Enroute       State = 1
	Delivered     State = 2
	Expired       State = 3
	Deleted       State = 4
	Undeliverable State = 5
	Accepted      State = 6
	Unknown       State = 7
	Rejected      State = 8
	Skipped       State = 9
)

// stateNames contains the names of the states in the texts of receipts (appendix B).
var stateNames = [...]string{"SCHEDULED", "ENROUTE", "DELIVRD", "EXPIRED", "DELETED", "UNDELIV", "ACCEPTD", "UNKNOWN", "REJECTD", "SKIPPED"}

// String returns the name of the state in receipts, such as DELIVRD.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("%d", uint8(s))
}

// IsFinal reports whether no other state follows. ACCEPTD is not final: carriers that send it send a final state later, or never.
func (s State) IsFinal() bool {
	switch s {
	case Delivered, Expired, Deleted, Undeliverable, Rejected, Unknown, Skipped:
		return true
	default:
		return false
	}
}
