export default {
  title: '公司',
  hint: '公司是租户：用户、短信任务和路由都属于公司。多家公司同时有任务等待时，按权重分配发送机会。',
  add: '新增公司',
  no: '公司编号',
  name: '名称',
  weight: '权重',
  defaultRegion: '号码所属地区',
  countries: '允许的国家',
  allCountries: '所有国家',
  editOne: '编辑公司“{name}”',
  deleteOne: '删除公司“{name}”',
  empty: {
    title: '还没有公司',
    text: '先新增一家公司，再为它添加用户和路由。',
  },
  delete: {
    title: '删除公司“{name}”？',
    text: '只有没有被任何用户、任务、路由、模板引用的公司才能删除。删除后无法恢复。',
    button: '删除公司',
  },
  form: {
    edit: '编辑公司“{name}”',
    noHint: '字母、数字、点、横线和下划线，之后不能修改。',
    weightHint: '相对于其他公司的份额：权重 2 的公司获得的发送机会是权重 1 的两倍。',
    defaultRegionHint: '两个字母，例如 CN、ID：没有 + 和国家代码的号码属于哪个国家或地区。不填时，除中国大陆手机号码外，这样的号码会被拒绝。',
    countriesHint: '不选表示可以向所有国家的号码发送。',
  },
}
