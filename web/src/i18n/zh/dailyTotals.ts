export default {
  title: '每日发送量',
  hint: '每个发送方每天的发送量，用来与服务商的账单核对。测试短信不计入。日期按系统设置的统计时区。',
  day: '日期',
  from: '开始日期',
  to: '结束日期',
  attempted: '尝试',
  accepted: '受理',
  delivered: '送达',
  segments: '计费条数',
  cost: '费用（{currency}）',
  empty: {
    title: '还没有发送量',
    text: '发送方上报结果后，这里按天显示。',
  },
}
