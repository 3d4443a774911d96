<<<<<<<< HEAD:web/dist/assets/FilterItem-Sq3wcjtK.js
import{L as e,M as t,Vt as n,Wt as r,ct as i,et as a,jt as o,k as s,rt as c,t as l}from"./_plugin-vue_export-helper-Brc5CRKa.js";var u=[`for`],d=l(e({__name:`FilterItem`,props:{label:{},width:{default:`medium`}},setup(e){let l=i();return(i,d)=>(a(),t(`div`,{class:n([`item`,e.width])},[s(`label`,{for:o(l)},r(e.label),9,u),c(i.$slots,`default`,{id:o(l)},void 0,!0)],2))}}),[[`__scopeId`,`data-v-d59b553a`]]);export{d as t};
========
import{L as e,M as t,Vt as n,Wt as r,ct as i,et as a,jt as o,k as s,rt as c,t as l}from"./_plugin-vue_export-helper-D4-_lvJ3.js";var u=[`for`],d=l(e({__name:`FilterItem`,props:{label:{},width:{default:`medium`}},setup(e){let l=i();return(i,d)=>(a(),t(`div`,{class:n([`item`,e.width])},[s(`label`,{for:o(l)},r(e.label),9,u),c(i.$slots,`default`,{id:o(l)},void 0,!0)],2))}}),[[`__scopeId`,`data-v-d59b553a`]]);export{d as t};
>>>>>>>> 0ae1eaef (Update the built console):web/dist/assets/FilterItem-DY_ywQ7a.js
